"""Distribution packages as an external repository: link flags from pkg-config,
headers from the compiler's default include path."""

def _query(ctx, args):
    result = ctx.execute(["pkg-config"] + args)
    if result.return_code != 0:
        fail("%s: pkg-config %s failed; run tools/setup.sh, or install: %s\n%s" % (
            ctx.name,
            " ".join(args),
            ctx.attr.hint,
            result.stderr,
        ))
    return [word for word in result.stdout.strip().split(" ") if word]

def _impl(ctx):
    packages = {}
    for label, modules in ctx.attr.libs.items():
        package, _, name = label.rpartition(":")
        rule = 'cc_library(\n    name = "%s",\n    linkopts = %r,\n)\n' % (
            name,
            _query(ctx, ["--libs"] + modules),
        )
        packages.setdefault(package, []).append(rule)
    packages.setdefault("", [])
    for package, rules in packages.items():
        ctx.file(
            package + "/BUILD" if package else "BUILD",
            'package(default_visibility = ["//visibility:public"])\n\n' + "\n".join(rules),
        )
    ctx.file("WORKSPACE", 'workspace(name = "%s")\n' % ctx.name)

pkg_config_repository = repository_rule(
    implementation = _impl,
    attrs = {
        "libs": attr.string_list_dict(mandatory = True, doc = "label in this repository -> pkg-config modules"),
        "hint": attr.string(doc = "Debian packages that provide them"),
    },
    environ = ["PKG_CONFIG_PATH"],
    local = True,
)
