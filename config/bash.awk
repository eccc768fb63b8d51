# config/bash.awk - completions for bash; see help.awk.
#
# Commands, flags and the words of a setting; everything else is a file.
function emit(i, list)
{
    print "# bash completion for quire, made of quire --help"
    print "_quire()\n{"
    print "    local words='' current=${COMP_WORDS[COMP_CWORD]}"
    print "    case ${COMP_WORDS[COMP_CWORD-1]} in"
    for (i = 1; i <= n_flags; i++)
        if (words[flags[i]] != "")
            print "    " flags[i] ") words='" words[flags[i]] "' ;;"
    print "    esac"
    print "    if [[ -z $words && $current == -* ]]; then"
    for (i = 1; i <= n_flags; i++)
        list = list (i > 1 ? " " : "") flags[i]
    print "        words='" list "'"
    print "    elif [[ -z $words && $COMP_CWORD == 1 ]]; then"
    list = ""
    for (i = 1; i <= n_commands; i++)
        list = list (i > 1 ? " " : "") commands[i]
    print "        words='" list "'"
    print "    fi"
    print "    COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n}"
    print "complete -o default -F _quire quire"
}
