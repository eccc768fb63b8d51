# config/man5.awk - quire.conf.5 from the comments of quire.conf.
#
#   awk -v version=0.1.0 -f config/man5.awk config/quire.conf
#
# quire.conf stays the only text: its head is the description, its "# ---- x ----" lines are
# headings, and a paragraph that ends in "# name = default" describes that setting.
function roff(s)
{
    gsub(/\\/, "\\e", s)
    gsub(/-/, "\\-", s)
    gsub(/'/, "\\(aq", s)
    gsub(/`/, "\\(ga", s)
    gsub(/\^/, "\\(ha", s)
    gsub(/~/, "\\(ti", s)
    # A line that began with a dot would be a request.
    return s ~ /^\./ ? "\\&" s : s
}
function flush_lines(i, example)
{
    for (i = 1; i <= n; i++) {
        if (line[i] ~ /^  / && !example) {
            print ".PP\n.RS 4\n.nf"
            example = 1
        } else if (line[i] !~ /^  / && line[i] != "" && example) {
            print ".fi\n.RE\n.PP"
            example = 0
        }
        if (line[i] != "")
            print roff(line[i])
        else if (example && line[i + 1] ~ /^  /)
            print ".sp"
        else if (!example && i < n && line[i + 1] !~ /^  /)
            print ".PP"
    }
    if (example)
        print ".fi\n.RE"
    n = 0
}
BEGIN {
    printf ".TH QUIRE.CONF 5 \"\" \"Quire %s\" \"File formats\"\n", roff(version)
    print ".SH NAME\nquire.conf \\- settings of the inference server Quire\n.SH DESCRIPTION"
}
NR <= 2 { next }
/^# ---- .* ----$/ {
    flush_lines()
    sub(/^# ---- /, "")
    sub(/ ----$/, "")
    print ".SH \"" toupper(roff($0)) "\""
    next
}
/^# [a-z0-9_]+ =/ {
    sub(/^# /, "")
    print ".TP\n.B \"" roff($0) "\""
    flush_lines()
    next
}
/^#/ {
    if ($0 ~ /^# ?[^ ]/ || n > 0) {
        sub(/^# ?/, "")
        line[++n] = $0
    } else if ($0 ~ /^#  /) {
        sub(/^# /, "")
        line[++n] = $0
    }
    next
}
END { flush_lines() }
