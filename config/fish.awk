# config/fish.awk - completions for fish, with what each thing is; see help.awk.
function quoted(s)
{
    gsub(/\\/, "&&", s) # two of it: awks differ in what backslashes of a replacement mean
    gsub(/'/, "\\'", s)
    return "'" s "'"
}
function emit(i, flag)
{
    print "# fish completion for quire, made of quire --help"
    for (i = 1; i <= n_commands; i++)
        print "complete -c quire -f -n __fish_use_subcommand -a " commands[i] " -d " quoted(about[commands[i]])
    for (i = 1; i <= n_flags; i++) {
        flag = flags[i]
        print "complete -c quire -l " substr(flag, 3) \
            (words[flag] != "" ? " -x -a " quoted(words[flag]) : takes_value[flag] ? " -r" : "") \
            " -d " quoted(text[flag])
    }
}
