package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// CompletionCmd prints a script for the completion of commands in a shell.
type CompletionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help returns the details of the help.
func (CompletionCmd) Help() string {
	return `bash: put  source <(stipend completion bash)  into ~/.bashrc
zsh:  put  source <(stipend completion zsh)  into ~/.zshrc, after compinit
fish: run  stipend completion fish > ~/.config/fish/completions/stipend.fish`
}

// completions contains the scripts by shell. Each script calls the hidden command complete to get the words that can
// follow.
var completions = map[string]string{
	"bash": `_stipend() {
	local IFS=$'\n'
	local words="$(stipend complete -- "${COMP_WORDS[@]:1:COMP_CWORD-1}" 2>/dev/null | cut -f1)"
	COMPREPLY=($(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _stipend stipend
`,
	"zsh": `_stipend() {
	local -a found
	found=("${(@f)$(stipend complete -- "${(@)words[2,CURRENT-1]}" 2>/dev/null | sed 's/:/\\:/g; s/\t/:/')}")
	_describe stipend found
}
compdef _stipend stipend
`,
	"fish": `complete -c stipend -a '(stipend complete -- (commandline -opc)[2..] 2>/dev/null)'
`,
}

// Run prints the script.
func (cmd CompletionCmd) Run(std Streams) error {
	_, err := io.WriteString(std.Out, completions[cmd.Shell])
	return err
}

// CompleteCmd prints the words that can follow on a command line, each with a tab and its help.
type CompleteCmd struct {
	Words []string `arg:"" optional:"" passthrough:""`
}

// Run prints the words.
func (cmd CompleteCmd) Run(std Streams, app *kong.Kong) error {
	node, value := app.Model.Node, (*kong.Flag)(nil)
	for _, word := range cmd.Words {
		if word == "--" || value != nil {
			value = nil
			continue
		}
		if name, _, given := strings.Cut(word, "="); strings.HasPrefix(word, "-") {
			for f := node; f != nil && !given; f = f.Parent {
				for _, flag := range f.Flags {
					if ("--"+flag.Name == name || flag.Short != 0 && "-"+string(flag.Short) == name) && !flag.IsBool() {
						value = flag
					}
				}
			}
			continue
		}
		if i := slices.IndexFunc(node.Children, func(n *kong.Node) bool { return n.Name == word }); i >= 0 {
			node = node.Children[i]
		}
	}
	say := func(name, help string) { fmt.Fprintf(std.Out, "%s\t%s\n", name, help) }
	if value != nil {
		for _, choice := range value.EnumSlice() {
			say(choice, "")
		}
		return nil
	}
	for _, child := range node.Children {
		if !child.Hidden {
			say(child.Name, child.Help)
		}
	}
	for _, at := range node.Positional {
		for _, choice := range at.EnumSlice() {
			say(choice, "")
		}
	}
	for f := node; f != nil; f = f.Parent {
		for _, flag := range f.Flags {
			if !flag.Hidden {
				say("--"+flag.Name, flag.Help)
			}
		}
	}
	return nil
}

// ManCmd prints the manual page.
type ManCmd struct{}

// Help returns the details of the help.
func (ManCmd) Help() string {
	return `Read it:  stipend man | man -l -
Install it:  stipend man > /usr/local/share/man/man1/stipend.1`
}

// Run prints the page in the format of man(7).
func (ManCmd) Run(std Streams, app *kong.Kong) error {
	w := std.Out
	text := func(s string) string {
		s = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(s)
		lines := strings.Split(s, "\n")
		for i, line := range lines {
			if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
				lines[i] = `\&` + line
			}
		}
		return strings.Join(lines, "\n")
	}
	fmt.Fprintf(w, ".TH STIPEND 1\n.SH NAME\nstipend \\- payroll service\n.SH SYNOPSIS\n.B stipend\n"+
		"COMMAND [FLAGS]\n.SH DESCRIPTION\n%s\n.SH COMMANDS\n", text(app.Model.Help))
	var walk func(*kong.Node)
	walk = func(n *kong.Node) {
		for _, child := range n.Children {
			if child.Hidden {
				continue
			}
			if len(child.Children) > 0 {
				walk(child)
				continue
			}
			fmt.Fprintf(w, ".SS %s\n%s\n", text(child.Summary()), text(child.Help))
			if child.Detail != "" {
				fmt.Fprintf(w, ".PP\n.nf\n%s\n.fi\n", text(child.Detail))
			}
			for _, flag := range child.Flags {
				if !flag.Hidden {
					fmt.Fprintf(w, ".TP\n.B %s\n%s\n", text(flag.String()), text(flag.Help))
				}
			}
		}
	}
	walk(app.Model.Node)
	fmt.Fprint(w, ".SH ENVIRONMENT\n.TP\n.B STIPEND_URL\nAddress of the installation.\n.TP\n.B STIPEND_KEY\n"+
		"API key or access token.\n.TP\n.B NO_COLOR\nIf set, the output has no colors.\n")
	return nil
}
