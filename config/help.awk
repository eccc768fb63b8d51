# config/help.awk - what `quire --help` prints, for completions: commands, flags, the words of a setting.
#
#   quire --help | awk -f config/help.awk -f config/bash.awk
#
# Afterwards emit() of the second file writes. commands[1..n_commands] and about[command];
# flags[1..n_flags], text[flag], words[flag] ("": anything) and takes_value[flag].
function finish(i, all)
{
    for (i = 1; i <= n_names; i++) {
        flags[++n_flags] = names[i]
        text[names[i]] = said
        takes_value[names[i]] = names[i] !~ /^--(print-config|version|help)$/
        if (match(said, /\([^ ()|]+(\|[^ ()|]+)+\)$/)) {
            all = substr(said, RSTART + 1, RLENGTH - 2)
            gsub(/\|/, " ", all)
            words[names[i]] = all
        }
    }
    n_names = 0
    said = ""
}
/^  quire / {
    line = substr($0, 9)
    name = $2 == "[serve]" ? "serve" : $2
    match(line, /   */)
    commands[++n_commands] = name
    about[name] = substr(line, RSTART + RLENGTH)
    next
}
/^  --/ {
    finish()
    for (i = 1; i <= NF && $i ~ /^--/; i++) {
        names[++n_names] = $i
        sub(/,$/, "", names[n_names])
    }
    for (; i <= NF; i++)
        said = said (said == "" ? "" : " ") $i
    next
}
/^   / {
    sub(/^ +/, "")
    said = said (said == "" ? "" : " ") $0
}
END {
    finish()
    emit()
}
