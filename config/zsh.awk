# config/zsh.awk - completions for zsh, with what each thing is; see help.awk.
function quoted(s)
{
    gsub(/'/, "'\\''", s)
    return "'" s "'"
}
function emit(i)
{
    print "#compdef quire\n# zsh completion for quire, made of quire --help"
    print "local -a list"
    print "case $words[CURRENT-1] in"
    for (i = 1; i <= n_flags; i++)
        if (words[flags[i]] != "")
            print flags[i] ") compadd -- " words[flags[i]] "; return ;;"
    print "esac"
    print "if [[ $PREFIX == -* ]]; then\n    list=("
    for (i = 1; i <= n_flags; i++)
        print "        " quoted(flags[i] ":" text[flags[i]])
    print "    )\n    _describe -o setting list"
    print "elif (( CURRENT == 2 )); then\n    list=("
    for (i = 1; i <= n_commands; i++)
        print "        " quoted(commands[i] ":" about[commands[i]])
    print "    )\n    _describe command list"
    print "else\n    _files\nfi"
}
