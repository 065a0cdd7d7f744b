"""Spellings of a route and of a query parameter that some server takes for the plain one."""

import itertools

# Methods that are, or that some server takes for, POST.
POSTS = ["POST", "Post", "post", "pOST", "POSt"]
METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "get",
           "Get", "head", "post", "Put", "FOO"]

# `N` stands for the name, `E` for it with a letter encoded, `U` for it in upper case.
PATHS = """
/N /N/ //N ///N /./N /N/. /./././N /a/../N /a/b/../../N /a/%2e%2e/N /.%2e/N /%2e/N /%2e%2e/N /../N
/..;/N /a/..;/N /N;x /N;x=y /N; /;/N /;x/N /a;x/../N /E /E/ /E;x //E /%2fN /%2FN %2fN /N%2f /N%2F
/N%2f/ /N// /N/// /N%20 /N+ /%20N /N%09 /N%0a /N%0d%0a /N%00 /N%00x /N%a0 /N%c2%a0 /N. /N.. /N%2e
/N.html /N.json /N.php /N? /N?x=y /N?/other /N%3f /N%3Fx=y /N#x /N%23 /N%23x /\\N \\N /%5cN /%5CN
/a\\..\\N /a%5c..%5cN /N\\ /N%5c /N/../N /N/%2e%2e/N /N/%2e /N/./ /U /U/ //U /%U /N%c0%af /%c0%afN
/%c0%ae/N /%252fN /N%252f /%25%32%66N /.//N /%2e//N //./N /a//../N /a//../../N /,/N /N, /N: /:N /N@
/~N /N~ /N* /N%7f /N%ff /index.php/N /public/N /*/N /N& /N&x /N= /%u002fN
""".split()


def _written_anew(name):
    """The letters of `name` in other ways."""
    for i, letter in enumerate(name):
        rest = name[:i], name[i + 1:]
        yield f"%{ord(letter):02x}".join(rest)
        yield f"%{ord(letter):02X}".join(rest)
        yield f"%25{ord(letter):02x}".join(rest)  # decoded twice
        full_width = chr(ord(letter) - ord("!") + 0xFF01).encode()
        yield "".join(f"%{byte:02X}" for byte in full_width).join(rest)
        yield full_width.decode("latin-1").join(rest)
        overlong = (0xC0 | ord(letter) >> 6, 0x80 | ord(letter) & 0x3F)
        yield "".join(f"%{byte:02X}" for byte in overlong).join(rest)
        yield f"%u{ord(letter):04x}".join(rest)
        for hidden in ("%C2%AD", "%E2%80%8B", "%EF%BB%BF", "%00", "%"):
            yield (letter + hidden).join(rest)
    yield "".join(f"%{ord(letter):02x}" for letter in name)
    for dotless in ("%C4%B1", "%C4%B0", "\u0131".encode().decode("latin-1")):
        yield name.replace("i", dotless)


def _cases(name):
    if len(name) > 6:
        return [name.upper(), name.capitalize(), name[:-1] + name[-1].upper()]
    return ["".join(choice)
            for choice in itertools.product(*((c.lower(), c.upper()) for c in name))]


def paths(name):
    """Targets that some server may route to `/name`; all are bytes as Latin-1."""
    encoded = name[:1] + f"%{ord(name[1]):02x}" + name[2:]
    for path in PATHS:
        yield path.replace("N", name).replace("E", encoded).replace("U", name.upper())
    for other in [*_written_anew(name), *_cases(name)]:
        yield "/" + other


def requests(name, methods):
    """(method, target, more fields, version) that some server may take for `method /name`."""
    plain = "/" + name
    for method in methods:
        yield method, plain, "", "1.1"
        yield method, plain.upper(), "", "1.1"
    for path in paths(name):
        yield "POST", path, "", "1.1"
    for target in (f"http://a{plain}", f"HTTP://a{plain}", f"http://a:80{plain}", f"https://a{plain}",
                   f"http://a/{plain}", f"http://a{plain.upper()}", f"http://a?{plain}",
                   f"http://a@b{plain}", f"http:{plain}", f"http://{plain}", f"a:80{plain}", name,
                   f"*{plain}", f"?{plain}", f"/%68ttp://a{plain}", f"ftp://a{plain}"):
        yield "POST", target, "", "1.1"
    for host in ("a.", "a..", "A", "a:80", "a%2e", "a,b", "a b", "", ".", "a%00", "a\x00", "[::1]",
                 "a:", "a:x", "a/"):
        yield "POST", plain, f"Host: {host}\r\n", "1.1"
    yield "POST", plain, "", "1.0"
    yield "POST", plain, "Host: a\r\nHost: b\r\n", "1.1"
    for field in ("X-Original-URL", "X-Rewrite-URL", "X-Forwarded-Uri", "X-Forwarded-Path"):
        yield "POST", "/elsewhere", f"Host: a\r\n{field}: {plain}\r\n", "1.1"
    for field in ("X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"):
        yield "GET", plain, f"Host: a\r\n{field}: POST\r\n", "1.1"
    for prefix in ("/", "/a", "/index.php"):
        yield "POST", plain, f"Host: a\r\nX-Forwarded-Prefix: {prefix}\r\nScript-Name: {prefix}\r\n", "1.1"


def parameter_names(name):
    """Names of query parameters that some parser may read as `name`."""
    before = ["", "+", "%20", "%20%20", "%09", "%0A", "%0D", "%00", "%0B", "[", "]", "%5B", "%5D", ".",
              "_", "a[", "%EF%BB%BF", "%E2%80%8B", "%C2%A0", "-", "?", "%3F", "#", "$"]
    after = ["", "[]", "%5B%5D", "[0]", "[a]", "%5Ba%5D", "[", "%5B", "]", "%5D", "[]x", "[][]", "[][a]",
             "[a]b", "[a][b]", "[__proto__]", "%00", "%00x", "%00[]", "%20", "+", "%09", "%0A", ".",
             ".a", "%2E", "%2Ea", "%E2%80%8B", "[%00]", ";", "%3B", "%"]
    between = ["_", ".", "%2E", "+", "%20", "[", "%5B", "%5F", "%5f", "-", "%2D", "__", "%00", "]",
               "%255F", "%C1%9F", "%EF%BC%BF", "%u005F", "%09", "%0A", "_%00"]
    found = [a + name + b for a in before for b in after]
    found += [(a + name + b).replace("_", middle)
              for a in ("", "+", "[") for middle in between for b in ("", "[]", "%00", "]")]
    found += [f"[{name}]", f"[{name}][]", f"%5B{name}%5D", f"[{name}][a]", f"{name}[{name}]",
              f"a]{name}", f"a%26{name}", f"[[{name}]]", f"[]{name}", f"[][{name}]"]
    return sorted({*found, *_written_anew(name), *_cases(name)})
