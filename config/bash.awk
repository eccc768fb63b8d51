# config/bash.awk - completions for bash from what `quire --help` prints.
#
#   quire --help | awk -f config/bash.awk
#
# Commands, flags and the words of a setting, (on|off) behind its text; everything else is a file.
function finish()
{
    if (flag != "" && match(text, /\([^ ()|]+(\|[^ ()|]+)+\)$/)) {
        words = substr(text, RSTART + 1, RLENGTH - 2)
        gsub(/\|/, " ", words)
        cases = cases "    " flag ") words='" words "' ;;\n"
    }
    flag = text = ""
}
/^  quire / {
    commands = commands " " ($2 == "[serve]" ? "serve" : $2)
    next
}
/^  --/ {
    finish()
    for (i = 1; i <= NF && $i ~ /^--/; i++) {
        flag = $i
        sub(/,$/, "", flag)
        flags = flags " " flag
    }
    text = $NF
    next
}
{ text = $NF }
END {
    finish()
    print "# bash completion for quire, made of quire --help"
    print "_quire()\n{"
    print "    local words='' current=${COMP_WORDS[COMP_CWORD]}"
    print "    case ${COMP_WORDS[COMP_CWORD-1]} in\n" cases "    esac"
    print "    if [[ -z $words && $current == -* ]]; then"
    print "        words='" substr(flags, 2) "'"
    print "    elif [[ -z $words && $COMP_CWORD == 1 ]]; then"
    print "        words='" substr(commands, 2) "'"
    print "    fi"
    print "    COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n}"
    print "complete -o default -F _quire quire"
}
