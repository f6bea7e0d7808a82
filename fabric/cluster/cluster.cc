#include "fabric/cluster/cluster.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "fabric/data/embedded_data.h"

namespace phantora {
namespace {

constexpr char kDirectory[] = "fabric/data/clusters/", kEnding[] = ".yaml";
constexpr int kMostHosts = 1 << 16;
constexpr double kBytesPerGbit = 1e9 / 8;
constexpr int kMostPaths = 32;
constexpr double kMostMs = 1e9;  // 11 days
constexpr int kLongestNs = 1'000'000'000;
// From a failure until switches send traffic another way. Switches that choose ways by what they
// see do it themselves: Mellanox says of SHIELD 5,000 times as fast as a subnet manager, which
// takes 5 s and more (docs.nvidia.com, InfiniBand Cluster Bring-up Procedure). Where ways are
// hashed, routing protocols tell each other: a usual figure, without a source.
constexpr double kAdaptiveRerouteMs = 1, kHashedRerouteMs = 1000;

// Thrown within this file only, as the YAML library does.
struct Wrong {
  std::string message;
};

// The keys of a part of the file, each to be read once.
class Part {
 public:
  Part(const std::string& file, std::string name, const YAML::Node& node)
      : file_(file), name_(std::move(name)), node_(node) {
    if (!node_.IsMap()) Fail(node_, absl::StrCat(name_, " must be a list of keys and values"));
  }

  template <typename T>
  T Get(const char* key, T least, T most) {
    const YAML::Node value = Find(key);
    T number{};
    try {
      number = value.as<T>();
    } catch (const YAML::Exception&) {
      Fail(value, absl::StrCat(name_, ".", key, " must be a number"));
    }
    if (!(number >= least && number <= most)) {
      Fail(value, absl::StrCat(name_, ".", key, " must be from ", least, " to ", most));
    }
    return number;
  }

  int Count(const char* key, int most = kMostHosts) { return Get<int>(key, 1, most); }

  std::string Text(const char* key) {
    const YAML::Node value = Find(key);
    if (!value.IsScalar()) Fail(value, absl::StrCat(name_, ".", key, " must be a word"));
    return value.Scalar();
  }

  bool Flag(const char* key) {
    const YAML::Node value = Find(key);
    try {
      return value.as<bool>();
    } catch (const YAML::Exception&) {
      Fail(value, absl::StrCat(name_, ".", key, " must be true or false"));
    }
  }

  template <typename T>
  T OneOf(const char* key, const std::map<std::string, T>& words) {
    const std::string word = Text(key);
    const auto found = words.find(word);
    if (found != words.end()) return found->second;
    Fail(node_[key],
         absl::StrCat(name_, ".", key, " is \"", word, "\"; it may be ",
                      absl::StrJoin(words, ", ", [](std::string* out, const auto& item) {
                        out->append(item.first);
                      })));
  }

  std::vector<int> Counts(const char* key) {
    const YAML::Node value = Find(key);
    std::vector<int> counts;
    try {
      counts = value.as<std::vector<int>>();
    } catch (const YAML::Exception&) {
      Fail(value, absl::StrCat(name_, ".", key, " must be numbers in brackets"));
    }
    return counts;
  }

  YAML::Node Find(const char* key) {
    read_.insert(key);
    const YAML::Node value = node_[key];
    if (!value) Fail(node_, absl::StrCat(name_, " needs the key \"", key, "\""));
    return value;
  }

  // Keys that may be missing.
  bool Has(const char* key) {
    read_.insert(key);
    return static_cast<bool>(node_[key]);
  }

  VirtualSpan Milliseconds(const char* key) {
    return VirtualSpan::Picoseconds(std::llround(Get<double>(key, 0, kMostMs) * 1e9));
  }

  std::string Where() const { return absl::StrCat(file_, ":", node_.Mark().line + 1); }

  // Every key there is has been read.
  void Done() const {
    for (const auto& item : node_) {
      const std::string key = item.first.Scalar();
      if (read_.contains(key)) continue;
      Fail(item.first, absl::StrCat(name_, " has no key \"", key, "\"; its keys are ",
                                    absl::StrJoin(read_, ", ")));
    }
  }

  [[noreturn]] void Fail(const YAML::Node& node, const std::string& what) const {
    throw Wrong{absl::StrCat(file_, ":", node.Mark().line + 1, ": ", what)};
  }

 private:
  const std::string& file_;
  const std::string name_;
  const YAML::Node node_;
  std::set<std::string> read_;
};

Cluster::Host ReadHost(Part part) {
  Cluster::Host host;
  host.gpu = part.Text("gpu");
  host.gpus = part.Count("gpus", 16);
  host.nvlink = part.Flag("nvlink");
  host.amd_cpu = part.OneOf<bool>("cpu", {{"intel", false}, {"amd", true}});
  host.cores = part.Count("cores");
  host.memory_gib = part.Count("memory_gib");
  host.nics = part.Count("nics", 64);
  part.Done();
  return host;
}

Cluster::Nic ReadNic(Part part) {
  Cluster::Nic nic;
  using Transport = Cluster::Transport;
  nic.transport = part.OneOf<Transport>("transport", {{"infiniband", Transport::kInfiniband},
                                                      {"roce", Transport::kRoce},
                                                      {"ethernet", Transport::kEthernet}});
  nic.bytes_per_s = part.Get<double>("gbit_per_s", 0.001, 1e5) * kBytesPerGbit;
  nic.messages_per_s = part.Get<double>("messages_per_us", 0.001, 1e6) * 1e6;
  part.Done();
  return nic;
}

// "3", or "0-3" for all of these.
std::pair<int, int> ReadRange(Part& part, const char* key) {
  const std::string text = part.Text(key);
  const std::pair<std::string, std::string> ends = absl::StrSplit(text, absl::MaxSplits('-', 1));
  std::pair<int, int> range;
  if (!absl::SimpleAtoi(ends.first, &range.first)) range.first = -1;
  if (!absl::StrContains(text, '-')) {
    range.second = range.first;
  } else if (!absl::SimpleAtoi(ends.second, &range.second)) {
    range.second = -1;
  }
  if (range.first < 0 || range.second < range.first || range.second >= kMostHosts) {
    part.Fail(part.Find(key), absl::StrCat("\"", text,
                                           "\" is neither a number nor a range of numbers "
                                           "such as 0-3"));
  }
  return range;
}

std::string ReadSwitch(Part& part, const char* key) {
  const std::string name = part.Text(key);
  if (name.empty() || absl::StartsWithIgnoreCase(name, "host ")) {
    part.Fail(part.Find(key), "a switch needs a name that does not begin with \"host \"");
  }
  return name;
}

SwitchGraph ReadGraph(const std::string& file, Part& network, double bytes_per_s,
                      VirtualSpan latency) {
  const auto list = [&](const char* key) {
    const YAML::Node found = network.Find(key);
    if (!found.IsSequence()) network.Fail(found, absl::StrCat("network.", key, " must be a list"));
    return found;
  };
  SwitchGraph graph;
  for (const YAML::Node& item : list("links")) {
    Part part(file, "a link", item);
    SwitchGraph::Link link = {ReadSwitch(part, "from"), ReadSwitch(part, "to"), part.Where(),
                              bytes_per_s, latency};
    if (part.Has("gbit_per_s")) {
      link.bytes_per_s = part.Get<double>("gbit_per_s", 0.001, 1e5) * kBytesPerGbit;
    }
    if (part.Has("latency_ns")) {
      link.latency = VirtualSpan::Nanoseconds(part.Get<int>("latency_ns", 0, kLongestNs));
    }
    part.Done();
    graph.links.push_back(std::move(link));
  }
  for (const YAML::Node& item : list("attached")) {
    Part part(file, "an attachment", item);
    const auto [first_host, last_host] = ReadRange(part, "hosts");
    const auto [first_nic, last_nic] = ReadRange(part, "nics");
    graph.attached.push_back(
        {first_host, last_host, first_nic, last_nic, ReadSwitch(part, "switch"), part.Where()});
    part.Done();
  }
  return graph;
}

Cluster::Network ReadNetwork(const std::string& file, Part part, Cluster::Transport transport) {
  Cluster::Network network;
  using Shape = Cluster::Shape;
  network.shape = part.OneOf<Shape>("shape", {{"rails", Shape::kRails},
                                              {"leaf-spine", Shape::kLeafSpine},
                                              {"clos", Shape::kClos},
                                              {"dragonfly+", Shape::kDragonflyPlus},
                                              {"torus", Shape::kTorus},
                                              {"graph", Shape::kGraph}});
  switch (network.shape) {
    case Shape::kRails:
      network.hosts_per_group = part.Count("hosts_per_group");
      break;
    case Shape::kTorus:
      network.torus = part.Counts("torus");
      break;
    case Shape::kGraph:
      break;
    default:
      network.hosts_per_leaf = part.Count("hosts_per_leaf");
      break;
  }
  if (network.shape == Shape::kRails || network.shape == Shape::kLeafSpine) {
    network.spines = part.Count("spines");
    network.uplinks = part.Count("uplinks");
  }
  if (network.shape == Shape::kClos || network.shape == Shape::kDragonflyPlus) {
    network.leaves_per_pod = part.Count("leaves_per_pod");
    network.spines_per_pod = part.Count("spines_per_pod");
  }
  if (network.shape == Shape::kClos) network.cores_per_plane = part.Count("cores_per_plane");
  network.core_bytes_per_s = part.Get<double>("core_gbit_per_s", 0.001, 1e5) * kBytesPerGbit;
  network.edge_latency = VirtualSpan::Nanoseconds(part.Get<int>("edge_latency_ns", 0, kLongestNs));
  network.core_latency = VirtualSpan::Nanoseconds(part.Get<int>("core_latency_ns", 0, kLongestNs));
  if (network.shape == Shape::kGraph) {
    network.graph = ReadGraph(file, part, network.core_bytes_per_s, network.core_latency);
  }
  network.mtu = part.Get<int>("mtu", 256, 65536);
  network.multipath = part.OneOf<Multipath>("multipath", {{"ecmp", Multipath::kEcmp},
                                                          {"split", Multipath::kSplit},
                                                          {"adaptive", Multipath::kAdaptive},
                                                          {"spray", Multipath::kSpray}});
  if (network.multipath == Multipath::kSplit) network.paths = part.Count("paths", kMostPaths);
  const bool hashed =
      network.multipath == Multipath::kEcmp || network.multipath == Multipath::kSplit;
  network.reroute = part.Has("reroute_ms")
                        ? part.Milliseconds("reroute_ms")
                        : VirtualSpan::Picoseconds(
                              std::llround((hashed ? kHashedRerouteMs : kAdaptiveRerouteMs) * 1e9));
  if (part.Has("congestion_control")) {
    network.dcqcn = part.OneOf<bool>("congestion_control", {{"none", false}, {"dcqcn", true}});
    if (network.dcqcn && transport != Cluster::Transport::kRoce) {
      part.Fail(part.Find("congestion_control"),
                "network.congestion_control: dcqcn is RoCE's, and nic.transport is not roce");
    }
  }
  part.Done();
  return network;
}

NetworkEvent ReadEvent(const std::string& file, const YAML::Node& node) {
  using Kind = NetworkEvent::Kind;
  constexpr std::pair<const char*, Kind> kKinds[] = {{"down", Kind::kDown},
                                                     {"up", Kind::kUp},
                                                     {"capacity", Kind::kCapacity},
                                                     {"traffic", Kind::kTraffic}};
  Part part(file, "an event", node);
  NetworkEvent event;
  event.where = part.Where();
  event.at = part.Milliseconds("at_ms");
  const char* key = nullptr;
  for (const auto& [name, kind] : kKinds) {
    if (!part.Has(name)) continue;
    if (key != nullptr) part.Fail(node, absl::StrCat("an event is either ", key, " or ", name));
    key = name;
    event.kind = kind;
  }
  if (key == nullptr) part.Fail(node, "an event needs one of the keys down, up, capacity, traffic");
  part.Done();
  if (event.kind == Kind::kDown || event.kind == Kind::kUp) {
    event.what = part.Text(key);
    return event;
  }
  Part of(file, absl::StrCat("an event's ", key), part.Find(key));
  if (event.kind == Kind::kCapacity) {
    event.what = of.Text("link");
    event.share = of.Get<double>("share", 1e-6, 1);
  } else {
    event.from = of.Text("from");
    event.to = of.Text("to");
    event.bytes_per_s = of.Get<double>("gbit_per_s", 1e-3, 1e5) * kBytesPerGbit;
    event.until = of.Milliseconds("until_ms");
    if (event.until <= event.at) of.Fail(of.Find("until_ms"), "until_ms must be after at_ms");
  }
  of.Done();
  return event;
}

std::vector<NetworkEvent> ReadEvents(const std::string& file, const YAML::Node& list) {
  if (!list.IsSequence()) {
    throw Wrong{absl::StrCat(file, ":", list.Mark().line + 1, ": events must be a list")};
  }
  std::vector<NetworkEvent> events;
  for (const YAML::Node& item : list) events.push_back(ReadEvent(file, item));
  return events;
}

Cluster ReadCluster(const std::string& file, const YAML::Node& root) {
  Part part(file, "a cluster", root);
  Cluster cluster;
  cluster.about = part.Text("about");
  cluster.hosts = part.Count("hosts");
  cluster.host = ReadHost(Part(file, "host", part.Find("host")));
  cluster.nic = ReadNic(Part(file, "nic", part.Find("nic")));
  cluster.network =
      ReadNetwork(file, Part(file, "network", part.Find("network")), cluster.nic.transport);
  if (part.Has("events")) cluster.events = ReadEvents(file, part.Find("events"));
  part.Done();
  return cluster;
}

absl::Status SetHosts(const std::string& number, Cluster& cluster) {
  if (!absl::SimpleAtoi(number, &cluster.hosts) || cluster.hosts < 1 ||
      cluster.hosts > kMostHosts) {
    return absl::InvalidArgumentError(absl::StrCat("a cluster has from 1 to ", kMostHosts,
                                                   " hosts, which \"", number, "\" is not"));
  }
  if (cluster.network.shape == Cluster::Shape::kTorus) {
    return absl::InvalidArgumentError("how many hosts a torus has is what its sizes say");
  }
  if (cluster.network.shape == Cluster::Shape::kGraph) {
    return absl::InvalidArgumentError("how many hosts a graph has is what its file says");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Cluster> ParseCluster(const std::string& file, const std::string& text) {
  try {
    return ReadCluster(file, YAML::Load(text));
  } catch (const Wrong& wrong) {
    return absl::InvalidArgumentError(wrong.message);
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ":", error.mark.line + 1, ": ", error.msg));
  }
}

std::vector<std::string> ClusterNames() {
  std::vector<std::string> names;
  for (const EmbeddedFile& file : FabricData()) {
    absl::string_view name(file.name.data(), file.name.size());
    if (absl::ConsumePrefix(&name, kDirectory) && absl::ConsumeSuffix(&name, kEnding)) {
      names.emplace_back(name);
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

absl::StatusOr<Cluster> FindCluster(const std::string& wanted) {
  const size_t colon = wanted.rfind(':');
  const std::string name = wanted.substr(0, colon);
  absl::StatusOr<Cluster> cluster =
      absl::NotFoundError(absl::StrCat("there is no cluster named ", name, "; known are ",
                                       absl::StrJoin(ClusterNames(), ", "), ", or give a file"));
  if (absl::StrContains(name, "/") || absl::EndsWith(name, kEnding)) {
    std::ifstream file(name);
    if (!file) return absl::NotFoundError(absl::StrCat("cannot read ", name));
    std::stringstream text;
    text << file.rdbuf();
    cluster = ParseCluster(name, text.str());
  } else {
    const std::string path = absl::StrCat(kDirectory, name, kEnding);
    for (const EmbeddedFile& file : FabricData()) {
      if (file.name == path) cluster = ParseCluster(path, std::string(file.content));
    }
  }
  if (!cluster.ok()) return cluster;
  cluster->name = name;
  if (colon != std::string::npos) {
    if (auto status = SetHosts(wanted.substr(colon + 1), *cluster); !status.ok()) return status;
  }
  return cluster;
}

absl::StatusOr<std::vector<std::vector<NodeId>>> BuildNetwork(const Cluster& cluster,
                                                              NetworkGraph& graph) {
  const Cluster::Network& network = cluster.network;
  const LinkSpeeds speeds = {cluster.nic.bytes_per_s, network.core_bytes_per_s,
                             network.edge_latency, network.core_latency};
  const int nics = cluster.host.nics;
  switch (network.shape) {
    case Cluster::Shape::kRails:
      return BuildRails(graph, cluster.hosts, nics, network.hosts_per_group, network.spines,
                        network.uplinks, speeds);
    case Cluster::Shape::kLeafSpine:
      return BuildLeafSpine(graph, cluster.hosts, nics, network.hosts_per_leaf, network.spines,
                            network.uplinks, speeds);
    case Cluster::Shape::kClos:
      return BuildClos(graph, cluster.hosts, nics, network.hosts_per_leaf, network.leaves_per_pod,
                       network.spines_per_pod, network.cores_per_plane, speeds);
    case Cluster::Shape::kDragonflyPlus:
      return BuildDragonflyPlus(graph, cluster.hosts, nics, network.hosts_per_leaf,
                                network.leaves_per_pod, network.spines_per_pod, speeds);
    case Cluster::Shape::kTorus: {
      int64_t hosts = 1;
      for (const int size : network.torus) hosts *= std::max(size, 1);
      if (hosts != cluster.hosts) {
        return absl::InvalidArgumentError(absl::StrCat(
            "the torus has ", hosts, " places, but the cluster ", cluster.hosts, " hosts"));
      }
      return BuildTorus(graph, network.torus, nics, speeds);
    }
    case Cluster::Shape::kGraph:
      return BuildSwitchGraph(graph, cluster.hosts, nics, network.graph, speeds);
  }
  return absl::InternalError("no such shape");
}

}  // namespace phantora
