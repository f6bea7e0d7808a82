#!/usr/bin/env bash
# Sets up what Phantora needs; quick when everything is there.
#
#   tools/setup.sh [all|system|drivers|python|build]
#   tools/setup.sh drivers VERSION...
#   tools/setup.sh framework NAME
#
#   system    build tools and libraries from Debian (the only step that may need root)
#   drivers   NVIDIA's user-mode driver libraries and headers, unpacked and never installed: three versions from Debian, or
#             those that are named, of which Ubuntu has the newer ones
#   python    a virtual environment with the pinned PyTorch of tools/setup/requirements.txt
#   build     bazel-bin/tools/phantora-run
#   framework an environment of its own with what tools/setup/frameworks/NAME.txt lists, in frameworks/NAME
#             of the cache
#
# PHANTORA_CACHE          where drivers and Python packages go (default ~/.cache/phantora)
# PHANTORA_DEBIAN_MIRROR  a Debian mirror's URI, for systems whose apt does not name one
# PHANTORA_UBUNTU_MIRROR  an Ubuntu mirror's URI (default http://archive.ubuntu.com/ubuntu)
set -euo pipefail

readonly system_packages=(
  bazel-bootstrap g++ pkg-config
  libabsl-dev libcli11-dev liblz4-dev libprotobuf-dev libseccomp-dev libtomlplusplus-dev libyaml-cpp-dev libzstd-dev
  nlohmann-json3-dev protobuf-compiler
  libgtest-dev libgmock-dev libbenchmark-dev
  python3 python3-dev python3-venv
  ca-certificates debian-archive-keyring xz-utils
)
# Without these something is slower.
readonly optional_packages=(libopenblas0-pthread)

# Driver version, revision of the Debian packages, Debian release that has them.
readonly driver_table=(
  "535.261.03 1 bookworm"
  "550.163.01 2 trixie"
  "555.58.02 4 experimental"
)
# Of a package's default; a source tree's tests use the others of Debian's, too.
readonly package_drivers=(535.261.03 550.163.01)
# Driver version, series in Ubuntu's pool, revision, hashes (SHA-256) of libnvidia-compute and nvidia-utils: Debian does not
# have Ubuntu's keys. Of releases of Ubuntu, not their updates, so that they stay there.
readonly ubuntu_drivers=(
  "545.29.06 545 0ubuntu0.22.04.2 1abd5bf3b9e17559e961b9b320f5c15b5f266b979ecbf68aca5783abf1f05e8a
   815a5e531e5c5595bed19288c604a16b1f495eca172f9dd52f3efd8758609c90"
  "570.133.07 570 0ubuntu2 6ca0998a4f1aec80b86296dfe9a0e1dc069c245150dd47bbf13a22fe86e843b1
   673316d7d777a4d2847e7187c57ddefc381931024eedb16a4ead3871f082ef16"
  "580.142 580 0ubuntu3 9a7380e0e8486df133493a18f6187fa5fc5a6fdcd45d986e45fcc3c7e59d206c
   20719368086106c202ab501b3c98dfa940555f88e08d87ce32907b448b5c72fd"
  "595.58.03 595 0ubuntu2 c96e0a3378b975125aefb7f34c96bb99d6297afd9af18cb0037cb6d71523373a
   97bc8e8e13f5cf00b46d9db71bb0ab434c3578fc237a1481595e993f62a2647f"
)
readonly driver_packages=(
  libcuda1 libnvidia-ml1 libnvidia-ptxjitcompiler1 libnvidia-nvvm4 nvidia-smi nvidia-open-kernel-source
)
readonly driver_libraries=(libcuda.so.1 libnvidia-ml.so.1 libnvidia-ptxjitcompiler.so.1 libnvidia-nvvm.so.4)
readonly kernel_source=nvidia-open-gpu-kernel-modules
# Folders of the kernel modules' source that hold the interface's structures.
readonly sdk_headers=(src/common/sdk/nvidia/inc src/common/inc src/nvidia/arch/nvalloc/unix/include)
# Counts up when the layout below $cache/drivers changes.
readonly driver_layout=1

readonly system_python=/usr/bin/python3
readonly python_disk_mib=9000

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${PHANTORA_CACHE:-${HOME:?set HOME or PHANTORA_CACHE}/.cache/phantora}
[[ $cache == /* ]] || { echo "setup: PHANTORA_CACHE must be an absolute path, not '$cache'" >&2; exit 1; }
# A package brings its own: other systems have an old one, or none.
keyring=$root/phantora/debian-archive-keyring.gpg
[[ -f $keyring ]] || keyring=/usr/share/keyrings/debian-archive-keyring.gpg
readonly root cache keyring
readonly scratch=$cache/.scratch  # belongs to the holder of the lock, see locked()
readonly venv=$cache/venv

# --- Talking, logging, locking -----------------------------------------------

say() { printf 'setup: %s\n' "$*" >&2; }

die() {
  say "error: $1"
  shift
  (($# == 0)) || printf '       %s\n' "$@" >&2
  exit 1
}

# run_logged <name> <command...>: silent, unless the command fails.
run_logged() {
  local log=$cache/logs/$1.log
  shift
  "$@" >"$log" 2>&1 </dev/null && return
  say "this failed: $*"
  tail -n 6 "$log" | sed 's/^/       | /' >&2
  say "the whole output is in $log"
  return 1
}

# locked <step>: one set-up at a time in this cache. The step runs in a subshell
# of its own, with an empty folder $scratch that is removed when it ends.
locked() (
  exec 9>"$cache/.lock"
  flock --nonblock 9 || {
    say "waiting for another set-up in $cache"
    flock 9
  }
  trap 'rm -rf "$scratch"' EXIT
  rm -rf "$scratch" && mkdir "$scratch"
  "$@"
)

# A package has no use for headers and sources, which are for building and for tests.
in_source_tree() { [[ -f $root/WORKSPACE ]]; }

# --- system ------------------------------------------------------------------

# missing_packages <package>...
missing_packages() {
  local package status
  for package; do
    status=$(dpkg-query --show --showformat '${db:Status-Status}' "$package" 2>/dev/null) || true
    # Of a package for several architectures, one is enough.
    [[ $status == installed* ]] || printf '%s\n' "$package"
  done
}

# No step may go on without these, so it ends here, with what to do.
packages_not_installed() {
  ((EUID != 0)) || die "apt-get could not install $*" \
    "bazel-bootstrap and the others are in the main section of Debian 12 and later; see 'apt-cache policy $1'."
  die "Debian packages are missing, and sudo could not install them" \
    "Give this command to an administrator, then run tools/setup.sh again:" \
    "  apt-get install --no-install-recommends $*"
}

# install_packages <package>...: as root, or by sudo.
install_packages() {
  local as_root=() install
  if ((EUID != 0)); then
    command -v sudo >/dev/null || return
    as_root=(sudo)
    [[ -t 0 ]] || as_root+=(--non-interactive)
  fi
  say "installing $*"
  install=("${as_root[@]}" apt-get --yes --quiet -o DPkg::Lock::Timeout=600 -o DPkg::Use-Pty=0)
  export DEBIAN_FRONTEND=noninteractive
  # The lists at hand may do, so a failure here is not the end.
  run_logged apt-update "${install[@]}" update || true
  run_logged apt-install "${install[@]}" install --no-install-recommends "$@"
}

setup_system() {
  local missing wished
  command -v dpkg-query >/dev/null || die "this is not a Debian system: dpkg-query is missing" \
    "Phantora builds on Debian 12 and later."
  mapfile -t missing < <(missing_packages "${system_packages[@]}")
  mapfile -t wished < <(missing_packages "${optional_packages[@]}")
  ((${#missing[@]} == 0)) || install_packages "${missing[@]}" || packages_not_installed "${missing[@]}"
  ((${#wished[@]} == 0)) || install_packages "${wished[@]}" ||
    say "not installed: ${wished[*]}, without which --execute all is slow"
}

# --- drivers -----------------------------------------------------------------

# Prints the URIs that may be a Debian mirror, as the system's apt knows them, and Debian's own, which a system that
# is made from Debian does not name.
debian_mirrors() {
  local codename
  [[ -z ${PHANTORA_DEBIAN_MIRROR:-} ]] || { printf '%s\n' "$PHANTORA_DEBIAN_MIRROR"; return; }
  codename=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
  {
    apt-get indextargets --format "\$(REPO_URI) \$(ORIGIN)/\$(LABEL)/\$(COMPONENT)" |
      sed -n 's,/\? Debian/Debian/main$,,p'
    # Without package lists apt names only what it would download.
    apt-get update --print-uris |
      sed -nE "s,^'(.*)/dists/($codename|(old|oldold)?stable|testing)/InRelease'.*,\1,p"
    echo http://deb.debian.org/debian
  } 2>/dev/null | awk '!seen[$0]++'
}

# write_apt_config <mirror>: an apt of our own below $apt. The system's
# settings (proxy, credentials) stay; its sources, state and hooks do not.
write_apt_config() {
  local signed="signed-by=$keyring lang=none"
  mkdir -p "$apt"/lists/partial "$apt"/archives/partial
  : >"$apt/status"
  cat >"$apt/sources.list" <<SOURCES
deb [arch=amd64 target=Packages $signed] $1 $release contrib non-free
deb-src [target=Sources $signed] $1 $release contrib
SOURCES
  cat >"$apt/apt.conf" <<CONFIG
Dir::State "$apt/";
Dir::State::lists "$apt/lists/";
Dir::State::status "$apt/status";
Dir::Cache "$apt/";
Dir::Cache::archives "$apt/archives/";
Dir::Etc::sourcelist "$apt/sources.list";
Dir::Etc::sourceparts "/nonexistent";
Dir::Etc::preferences "/nonexistent";
Dir::Etc::preferencesparts "/nonexistent";
Acquire::Retries "3";
APT::Sandbox::User "root";
APT::Update::Error-Mode "any";
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
CONFIG
}

# Fetches the lists of $release, once a run, from the first mirror that is Debian's.
update_apt() {
  local mirror mirrors
  [[ -z $apt_is_fresh ]] || return 0
  mapfile -t mirrors < <(debian_mirrors)
  ((${#mirrors[@]})) || {
    say "apt on this system names no Debian mirror; set PHANTORA_DEBIAN_MIRROR to the URI of one"
    return 1
  }
  for mirror in "${mirrors[@]}"; do
    write_apt_config "$mirror"
    run_logged "apt-$release" apt-get --config-file "$apt/apt.conf" --quiet update || continue
    apt_is_fresh=1
    return
  done
  say "no mirror that apt knows (${mirrors[*]}) serves Debian $release; set PHANTORA_DEBIAN_MIRROR"
  return 1
}

# debian_version <package> <Packages|Sources> <version> <revision>: prints the
# archive's version of a package: that revision, or another of the same version.
debian_version() {
  local found
  found=$(apt-cache --config-file "$apt/apt.conf" madison "$1" 2>/dev/null |
    awk -v kind="$2" -v version="$3-" '$NF == kind && index($3, version) == 1 {print $3}')
  if grep -qxF "$3-$4" <<<"$found"; then
    echo "$3-$4"
  elif [[ $found ]]; then
    head -n 1 <<<"$found"
  else
    say "Debian $release no longer has $1 $3"
    return 1
  fi
}

# Downloads the packages into the current folder and unpacks them below it.
fetch_packages() {
  local version=$1 revision=$2 package found wanted=()
  for package in "${driver_packages[@]}"; do
    [[ $package != nvidia-open-kernel-source ]] || in_source_tree || continue
    found=$(debian_version "$package" Packages "$version" "$revision") || return
    wanted+=("$package=$found")
  done
  run_logged "download-$version" apt-get --config-file "$apt/apt.conf" --quiet download "${wanted[@]}" || return
  for package in *.deb; do
    dpkg-deb --extract "$package" unpacked || return
  done
  printf '%s\n' "${wanted[@]}" >packages
}

# Sorts what fetch_packages unpacked into lib, bin and src of folder $1.
arrange_packages() {
  local to=$1 open=modules/nvidia-open-kernel
  mkdir -p "$to"/{lib,bin}
  cp -a unpacked/usr/lib/x86_64-linux-gnu/nvidia/current/*.so* "$to/lib/" &&
    cp -a unpacked/usr/lib/nvidia/current/nvidia-smi "$to/bin/" &&
    cp unpacked/usr/share/doc/libcuda1/copyright "$to/LICENSE" &&
    mv packages "$to/" || return
  in_source_tree || return 0
  mkdir -p "$to/src/kernel-open/common"
  tar -xJf unpacked/usr/src/nvidia-open-kernel.tar.xz "$open"/{Kbuild,common/inc,nvidia-uvm} &&
    mv "$open/Kbuild" "$open/nvidia-uvm" "$to/src/kernel-open/" &&
    mv "$open/common/inc" "$to/src/kernel-open/common/"
}

# check_driver <folder> <version> [source file]: is everything there, and of that version?
check_driver() {
  local library file sources=(${3:+"$3"})
  for library in "${driver_libraries[@]}"; do
    file=$1/lib/${library%.so.*}.so.$2
    [[ -s $file && $1/lib/$library -ef $file ]] || { say "$file is missing"; return 1; }
  done
  for file in lib/libcuda.so.1 lib/libnvidia-ml.so.1 bin/nvidia-smi "${sources[@]}"; do
    file=$1/$file
    grep -qaF "$2" "$file" || { say "$file is not of version $2"; return 1; }
  done
}

# install_driver <version> <revision>
install_driver() {
  local version=$1
  say "fetching NVIDIA's driver libraries $version from Debian $release (about 65 MB)"
  update_apt || return
  (cd "$scratch" && fetch_packages "$version" "$2" && arrange_packages "$scratch/new") || return
  check_driver "$scratch/new" "$version" "$(! in_source_tree || echo src/kernel-open/Kbuild)" || return
  echo "$driver_layout" >"$scratch/new/.complete"
  rm -rf "${cache:?}/drivers/$version" && mv "$scratch/new" "$cache/drivers/$version"
}

# install_ubuntu_driver <version> <series> <revision> <hash> <hash>
install_ubuntu_driver() {
  local version=$1 series=$2 file to=$scratch/new hashes=("$4" "$5") package
  local pool=${PHANTORA_UBUNTU_MIRROR:-http://archive.ubuntu.com/ubuntu}/pool/restricted/n/nvidia-graphics-drivers-$series
  say "fetching NVIDIA's driver libraries $version from Ubuntu (about 60 MB)"
  cd "$scratch" || return
  for package in libnvidia-compute nvidia-utils; do
    file=$package-${series}_$version-${3}_amd64.deb
    run_logged "download-$version" /usr/lib/apt/apt-helper download-file "$pool/$file" "$file" "SHA256:${hashes[0]}" || return
    dpkg-deb --extract "$file" unpacked || return
    hashes=("${hashes[@]:1}")
  done
  mkdir -p "$to"/{lib,bin}
  cp -a unpacked/usr/lib/x86_64-linux-gnu/*.so* "$to/lib/" && cp -a unpacked/usr/bin/nvidia-smi "$to/bin/" &&
    cp "unpacked/usr/share/doc/libnvidia-compute-$series/copyright" "$to/LICENSE" || return
  check_driver "$to" "$version" || return
  echo "$driver_layout" >"$to/.complete"
  rm -rf "${cache:?}/drivers/$version" && mv "$to" "$cache/drivers/$version"
}

# install_headers <version> <revision>: the structures' headers that only the
# source package has.
install_headers() {
  local version=$1 to=$cache/drivers/$1/src found header
  say "fetching the headers of NVIDIA's open kernel modules $version (about 13 MB)"
  update_apt || return
  found=$(debian_version "$kernel_source" Sources "$version" "$2") || return
  mkdir -p "$scratch/source" && cd "$scratch/source" || return
  run_logged "source-$version" apt-get --config-file "$apt/apt.conf" --quiet source --download-only --tar-only \
    "$kernel_source=$found" || return
  tar -xJf ./*.orig.tar.xz --strip-components=1 || return
  grep -qx "NVIDIA_VERSION = $version" version.mk || { say "the source of $version is of another version"; return 1; }
  for header in "${sdk_headers[@]}"; do
    mkdir -p "$to/$(dirname "$header")" && rm -rf "${to:?}/$header" && cp -a "$header" "$to/$header" || return
  done
  echo "$driver_layout" >"$to/.complete"
}

is_complete() { [[ -f $1/.complete && $(<"$1/.complete") == "$driver_layout" ]]; }

# Were the headers looked for in vain less than a day ago?
tried_today() { [[ $(find "$1/.headers-tried" -mmin -1440 2>/dev/null) ]]; }

# setup_driver <version> <revision> <release>
setup_driver() {
  local dir=$cache/drivers/$1
  release=$3 apt=$cache/apt/$3 apt_is_fresh=
  # One that a package has fetched lacks the sources.
  if ! is_complete "$dir" || { in_source_tree && [[ ! -d $dir/src/kernel-open ]]; }; then
    install_driver "$@" || { say "warning: no driver $1"; return 1; }
  fi
  in_source_tree && ! is_complete "$dir/src" || return 0
  if ! tried_today "$dir/src"; then
    (install_headers "$@") && return
    touch "$dir/src/.headers-tried"
  fi
  say "warning: no SDK headers of driver $1: the ABI parity test cannot check that version" \
    "(tried once a day; to try now: rm $dir/src/.headers-tried)"
}

# setup_one_driver <version>
setup_one_driver() {
  local row fields
  for row in "${driver_table[@]}"; do
    read -ra fields <<<"$row"
    [[ ${fields[0]} != "$1" ]] || { locked setup_driver "${fields[@]}" && return; }
  done
  for row in "${ubuntu_drivers[@]}"; do
    read -ra fields <<<"${row//$'\n'/ }"
    [[ ${fields[0]} == "$1" ]] || continue
    is_complete "$cache/drivers/$1" || locked install_ubuntu_driver "${fields[@]}" || { say "warning: no driver $1"; return 1; }
    return
  done
}

known_drivers() {
  local row
  for row in "${driver_table[@]}" "${ubuntu_drivers[@]}"; do echo "${row%% *}"; done
}

# setup_drivers [version...]
setup_drivers() {
  local version some= wanted=("$@")
  [[ $(dpkg --print-architecture 2>/dev/null) == amd64 ]] || die "Phantora runs on amd64 only"
  for version in "${wanted[@]}"; do
    known_drivers | grep -qxF -e "$version" || die "no driver $version is known to be fetched from anywhere" \
      "There are $(known_drivers | xargs). Others that are here: 'phantora-run --driver DIRECTORY'."
  done
  if ((${#wanted[@]} == 0)); then
    if in_source_tree; then mapfile -t wanted < <(printf '%s\n' "${driver_table[@]%% *}"); else wanted=("${package_drivers[@]}"); fi
  fi
  mkdir -p "$cache/drivers"
  for version in "${wanted[@]}"; do
    setup_one_driver "$version" && some=1
  done
  [[ $some ]] || die "no version of NVIDIA's driver libraries is ready" \
    "The lines above say why. Behind a proxy, set http_proxy or apt's Acquire::http::Proxy;" \
    "for another mirror, set PHANTORA_DEBIAN_MIRROR; then try again."
}

# --- python ------------------------------------------------------------------

python_key() {
  printf '%s %s %s\n' "$($system_python -c 'import sys; print(sys.version_info[:2])')" "$environment" \
    "$(sha256sum <"$requirements")"
}

python_disk_space() {
  local free
  free=$(df --output=avail --block-size=1M "$cache" | tail -n 1)
  ((free >= python_disk_mib)) || die "the packages need about $python_disk_mib MiB below $cache; $((free)) MiB are free" \
    "Make room, or set PHANTORA_CACHE to a folder on a larger disk."
}

pip_install() {
  local command=("$environment/bin/python" -m pip install --requirement "$requirements")
  # Someone who watches sees pip's progress; a log needs only the end of it.
  if [[ -t 2 ]]; then "${command[@]}" >&2; else run_logged pip "${command[@]}" --progress-bar off; fi
}

# A list of packages may say what shows that they work: "# check: PYTHON".
check_python() {
  local check
  check=$(sed -n 's/^# check: //p' "$requirements")
  "$environment/bin/python" -c "${check:-import numpy, torch; assert torch.version.cuda, 'PyTorch was built without CUDA'}"
}

install_python() {
  local clear=()
  say "installing Python packages into $environment (some GB to download)"
  python_disk_space
  # Installations that were interrupted go on, those of another Python do not.
  [[ -x $environment/bin/python ]] && cmp -s <("$environment/bin/python" -V) <($system_python -V) || clear=(--clear)
  rm -f "$environment/.complete"
  run_logged venv $system_python -m venv "${clear[@]}" "$environment" ||
    die "cannot create a virtual environment in $environment"
  pip_install || die "pip could not install ${requirements#"$root/"}" \
    "It uses this system's pip settings ('pip config list' shows them). Try again when they are right: it goes on from here."
  run_logged python-check check_python || die "What is installed in $environment does not work"
  python_key >"$environment/.complete"
}

python_complete() { [[ -f $environment/.complete && $(<"$environment/.complete") == "$(python_key)" ]]; }

python_step() { python_complete || install_python; }

# What the steps above install where; those of frameworks do not touch the first.
environment=$venv
requirements=$root/tools/setup/requirements.txt

setup_python() {
  [[ -x $system_python ]] || die "$system_python is missing; run tools/setup.sh system"
  python_complete || locked python_step
}

# setup_framework <name>: of tools/setup/frameworks.
setup_framework() {
  requirements=$root/tools/setup/frameworks/$1.txt
  environment=$cache/frameworks/$1
  [[ $1 != */* && -f $requirements ]] || die "no framework named '$1'" \
    "There are $(cd "$root/tools/setup/frameworks" && ls -- *.txt | sed 's/\.txt$//' | paste -sd ' ')."
  mkdir -p "$cache/frameworks"
  setup_python
}

# --- build -------------------------------------------------------------------

setup_build() {
  command -v bazel >/dev/null || die "bazel is missing; run tools/setup.sh system"
  (cd "$root" && bazel build //tools:phantora-run) || die "the build failed; bazel's messages are above"
}

# -----------------------------------------------------------------------------

setup_all() {
  setup_system
  # Compiling needs nothing of what is fetched beside it, and takes longer. It is a process group of its own, so that it ends
  # with a step that fails.
  set -m
  setup_build &
  build=$!
  set +m
  trap 'kill -INT -- "-$build" 2>/dev/null || true' EXIT
  setup_drivers
  setup_python
  wait "$build" || exit 1
  trap - EXIT
}

report_ready() {
  say "ready: drivers $(cd "$cache/drivers" && echo [0-9]*), Python packages in $cache/venv"
  say "run:   bazel-bin/tools/phantora-run --gpu h100-sxm5-80gb --gpus 2 -- COMMAND"
  say "       (programs that use PyTorch: $cache/venv/bin/python or $cache/venv/bin/torchrun)"
}

# Of an installed package: NVIDIA's libraries are all that it lacks.
main_of_package() {
  [[ ${1:-drivers} == drivers ]] || die "phantora-run setup takes versions of the driver"
  command -v apt-get >/dev/null || die "NVIDIA's driver libraries come from Debian, by apt, which this system does not have" \
    "Copy the drivers folder of another machine's cache to $cache, or give 'phantora-run --driver DIRECTORY'."
  mkdir -p "$cache/logs" || die "cannot write to $cache; set PHANTORA_CACHE to a folder of yours"
  setup_drivers "${@:2}"
  say "ready: drivers $(cd "$cache/drivers" && echo [0-9]*)"
}

main() {
  local usage="usage: tools/setup.sh [all|system|drivers [VERSION...]|python|build], or tools/setup.sh framework NAME"
  case ${1:-all} in
    drivers) ;;
    all | system | python | build) (($# <= 1)) || die "$usage" ;;
    framework) (($# == 2)) || die "$usage" ;;
    *) die "no step named '$1'" "$usage" ;;
  esac
  mkdir -p "$cache/logs" || die "cannot write to $cache; set PHANTORA_CACHE to a folder of yours"
  "setup_${1:-all}" "${@:2}"
  if [[ ${1:-all} == all ]]; then report_ready; fi
}

if in_source_tree; then main "$@"; else main_of_package "$@"; fi
