# config/man1.awk - quire.1 from what `quire --help` prints.
#
#   quire --help | awk -v version=0.1.0 -f config/man1.awk
function roff(s)
{
    gsub(/\\/, "\\e", s)
    gsub(/-/, "\\-", s)
    gsub(/'/, "\\(aq", s)
    gsub(/"/, "\\(dq", s)
    return s ~ /^\./ ? "\\&" s : s
}
function item(s, at)
{
    sub(/^ +/, "", s)
    at = match(s, /   *[^ ]/)
    print ".TP\n.B \"" roff(at ? substr(s, 1, at - 1) : s) "\""
    if (at)
        print roff(substr(s, at + RLENGTH - 1))
}
NR == 1 {
    sub(/^quire - /, "")
    printf ".TH QUIRE 1 \"\" \"Quire %s\" \"User commands\"\n", roff(version)
    print ".SH NAME\nquire \\- " roff($0) "\n.SH COMMANDS"
    next
}
/^$/ { next }
/^[^ ]/ {
    print ".SH SETTINGS\n" roff($0)
    next
}
/^  [^ ]/ {
    # Short names stand one space before their text.
    if ($1 ~ /^--/ && $0 !~ /,/ && $0 !~ /^  --[^ ]+   */)
        sub(/^  --[^ ]+ /, "&  ")
    item($0)
    next
}
{
    sub(/^ +/, "")
    print roff($0)
}
END { print ".SH SEE ALSO\n.BR quire.conf (5)" }
