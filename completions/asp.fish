# fish completion of asp: it asks the program what may be typed next.
# Install: asp completion fish --install

function __asp_complete
    set -l word (commandline -ct)
    set -l before (string match -r -- '^--[^=]*=' $word; or echo)
    set -l path (string replace -r -- '^--[^=]*=' '' $word)
    for line in (command asp __complete fish -- (commandline -cp | string collect) 2>/dev/null)
        switch $line
            case :files
                printf '%s\n' $before(__fish_complete_path $path)
            case :folders
                printf '%s\n' $before(__fish_complete_directories $path '')
            case ':*'
            case '*'
                printf '%s\n' $line
        end
    end
end

complete -c asp -f -k -a '(__asp_complete)'
