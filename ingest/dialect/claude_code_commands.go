package dialect

import (
	"regexp"
	"strings"

	"millrace/schemas/event"
)

// checkCommands tell a check by a command, without what stands before and after it on its line. The first that fits
// counts: conventions (lint, format) come before what only contains their word.
var checkCommands = []struct {
	kind    event.CheckKind
	command *regexp.Regexp
}{
	{event.CheckKind_FORMAT, regexp.MustCompile(`^(?:(?:gofmt|gofumpt|goimports) (?:\S+ )*-[a-z]*[ld]\b|(?:prettier|biome format) (?:.* )?(?:--check|-c|-l|--list-different)\b|black (?:.* )?--(?:check|diff)\b|isort (?:.* )?--check|(?:cargo fmt|rustfmt) (?:.* )?--check\b|ruff format (?:.* )?--(?:check|diff)\b|dotnet format --verify|terraform fmt (?:.* )?-check\b)`)},
	{event.CheckKind_LINT, regexp.MustCompile(`^(?:golangci-lint(?: run)?|staticcheck|revive|go vet|eslint|oxlint|biome (?:check|lint)|stylelint|ruff(?: check)?|flake8|pylint|mypy|pyright|basedpyright|cargo clippy|rubocop|shellcheck|hadolint|buf lint|ktlint|detekt|phpstan|swiftlint|clang-tidy)(?: |$)|^RUN (?:lint|typecheck|type-check|vet|clippy|check-types)(?:[:\-]\S+)?(?: |$)`)},
	{event.CheckKind_TEST, regexp.MustCompile(`^(?:go test|gotestsum|pytest|py\.test|(?:tox|nox)|cargo (?:test|nextest)|jest|vitest|mocha|ava|playwright test|cypress run|rspec|rake test|rails test|phpunit|pest|dotnet test|ctest|swift test|mix test|bun test|deno test|node --test|ginkgo|bazel test|manage\.py test|artisan test|unittest)(?: |$)|^(?:mvn|mvnw|gradle|gradlew) (?:.* )?(?:\S*:)?(?:test|verify|check)(?: |$)|^RUN (?:t|tests?)(?:[:\-]\S+)?(?: |$)`)},
	{event.CheckKind_BUILD, regexp.MustCompile(`^(?:go (?:build|install)|cargo (?:build|check)|tsc|vue-tsc|dotnet build|cmake --build|swift build|bazel build|next build|vite build|webpack)(?: |$)|^(?:mvn|mvnw|gradle|gradlew) (?:.* )?(?:\S*:)?(?:compile|package|assemble|build)(?: |$)|^RUN (?:build|compile)(?:[:\-]\S+)?(?: |$)`)},
}

// notAsked are commands of a check's program that check nothing.
var notAsked = regexp.MustCompile(` (?:--help|--version|-V|--fix-dry-run-help|--list-tests|--collect-only|--co)(?: |$)`)

// What stands before a command's own words.
var (
	assignment  = regexp.MustCompile(`^[A-Za-z_]\w*=(?:"[^"]*"|'[^']*'|\S*) +`)
	prefixes    = regexp.MustCompile(`^(?:sudo|time|command|exec|env|nohup|nice(?: -n \S+)?|timeout(?: -\S+)* \S+|stdbuf(?: -\S+)*|xvfb-run(?: -a)?|(?:poetry|uv|pipenv|hatch|rye|pdm) run|npx(?: --?y(?:es)?)?|pnpm (?:exec|dlx)|yarn (?:exec|dlx)|bunx|bundle exec|docker(?: compose|-compose)? (?:exec|run)(?: -\S+)* \S+|(?:mise|direnv|devbox) exec \S+ --|python[\d.]* (?:-\w )*-m|python[\d.]*|php|go run) +`)
	taskRunner  = regexp.MustCompile(`^(?:make|gmake|just|task|rake|npm|pnpm|yarn|bun|mise|turbo|nx|deno)(?: +(?:-C +\S+|-f +\S+|--(?:prefix|filter|dir|cwd)[ =]\S+|-w +\S+|-\S+|run-script|run|workspace +\S+))* +`)
	heredoc     = regexp.MustCompile(`^<<-?[ \t]*(['"\\]?)([A-Za-z_][\w.-]*)['"]?`)
	inFolder    = regexp.MustCompile(`^(?:\S*/)?([\w.-]+)`)
	redirection = regexp.MustCompile(`\s*(?:\d?>>?&?\s*\S+|&>>?\s*\S+|<\s*\S+)`)
	toolchain   = regexp.MustCompile(`^cargo \+\S+`)
	spaces      = regexp.MustCompile(`\s+`)
)

// ccSegment is one command of a command line.
type ccSegment struct {
	text   string // without what stands before and after its own words
	before string // what joins it to the one before: "", "&&", "||", ";", "|"
	fed    string // what it is fed on the lines below
}

// segments parts a command line at what joins commands, outside of quotes.
func segments(line string) []ccSegment {
	var out []ccSegment
	var text strings.Builder
	joined := ""
	flush := func(next string) {
		if command := strings.TrimSpace(text.String()); command != "" {
			out = append(out, ccSegment{text: command, before: joined})
		}
		text.Reset()
		joined = next
	}
	var awaited []string // the lines that end what is fed, of those that begin below
	skip := func(rest string) (n int) {
		for _, end := range awaited {
			n += fedUntil(rest[n:], end)
		}
		awaited = nil
		return n
	}
	line = strings.ReplaceAll(line, "\\\n", " ")
	quote := byte(0)
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case quote == '"' && c == '\n' && len(awaited) > 0: // "$(cat <<EOF": quotes in what is fed are none
			n := skip(line[i+1:])
			text.WriteString(line[i : i+1+n])
			i += n
		case quote == '"' && strings.HasPrefix(line[i:], "<<") && strings.Contains(text.String(), "$("):
			text.WriteString("<<")
			i++
			if m := heredoc.FindStringSubmatch(line[i-1:]); m != nil && fedUntil(line[i:], m[2]) < len(line)-i {
				awaited = append(awaited, m[2])
				text.WriteString(line[i+1 : i-1+len(m[0])])
				i += len(m[0]) - 2
			}
		case quote != 0:
			if c == '\\' && quote == '"' && i+1 < len(line) {
				text.WriteByte(c)
				i++
				c = line[i]
			} else if c == quote {
				quote = 0
			}
			text.WriteByte(c)
		case c == '\'' || c == '"' || c == '`':
			quote = c
			text.WriteByte(c)
		case strings.HasPrefix(line[i:], "<<<"):
			text.WriteString("<<<")
			i += 2
		case strings.HasPrefix(line[i:], "<<"): // what a command is fed is no command
			m := heredoc.FindStringSubmatch(line[i:])
			if m == nil {
				text.WriteString("<<")
				i++
				break
			}
			awaited = append(awaited, m[2])
			text.WriteString(m[0])
			i += len(m[0]) - 1
		case c == '\n' && len(awaited) > 0:
			flush(";")
			n := skip(line[i+1:])
			if len(out) > 0 {
				out[len(out)-1].fed += line[i : i+1+n]
			}
			i += n
		case strings.HasPrefix(line[i:], "&&"), strings.HasPrefix(line[i:], "||"):
			flush(line[i : i+2])
			i++
		case c == '&' && (i == 0 || line[i-1] != '>') && (i+1 == len(line) || line[i+1] != '>'), c == ';', c == '\n':
			flush(";")
		case strings.HasPrefix(line[i:], "|&"):
			flush("|")
			i++
		case c == '|':
			flush("|")
		default:
			text.WriteByte(c)
		}
	}
	flush("")
	return out
}

// fedUntil is the length of what is fed up to the line that ends it, or of all if none does.
func fedUntil(text, end string) int {
	n := 0
	for n < len(text) {
		line, _, more := strings.Cut(text[n:], "\n")
		n += len(line)
		if more {
			n++
		}
		if strings.TrimSpace(line) == end {
			return n
		}
	}
	return n
}

// command is a segment's own words: without variables, wrappers, the folder of its program and redirections; a task
// runner and its options become RUN.
func command(text string) string {
	text = strings.Trim(spaces.ReplaceAllString(redirection.ReplaceAllString(text, ""), " "), " (){}")
	for range 8 {
		rest := assignment.ReplaceAllString(text, "")
		if m := taskRunner.FindString(rest + " "); m != "" && m != rest+" " {
			return "RUN " + strings.TrimPrefix(rest, strings.TrimRight(m, " ")+" ")
		}
		rest = prefixes.ReplaceAllString(rest, "")
		if m := inFolder.FindStringSubmatch(rest); m != nil {
			rest = strings.TrimPrefix(m[1], "./") + strings.TrimPrefix(rest, m[0])
		}
		rest = toolchain.ReplaceAllString(rest, "cargo")
		if rest == text {
			break
		}
		text = rest
	}
	return text
}

// checkKind is the kind of check that a command is.
func checkKind(command string) (event.CheckKind, bool) {
	if notAsked.MatchString(command) {
		return 0, false
	}
	for _, k := range checkCommands {
		if k.command.MatchString(command) {
			return k.kind, true
		}
	}
	if program, ok := strings.CutPrefix(command, "RUN "); ok { // yarn jest
		return checkKind(program)
	}
	return 0, false
}

// ccCheckCommand is a check on a command line.
type ccCheckCommand struct {
	kind event.CheckKind
	id   string // the folder that the line goes to, and the command with what its output goes through
	exit bool   // the line's exit code is the check's own, unless one before it failed
	// Nothing that could fail stands before it on the line.
	first bool
	// What it printed goes through another command, which may have left out what failed.
	cut bool
}

// checksOn are the checks that a command line runs. One that runs only if another command failed isn't known to have run.
func checksOn(line string) []ccCheckCommand {
	var out []ccCheckCommand
	list := segments(line)
	folder, first := "", true
	for i, s := range list {
		words := command(s.text)
		if to, ok := strings.CutPrefix(words, "cd "); ok {
			folder += "/" + to
			continue
		}
		if s.before == "||" {
			continue
		}
		exit := true
		for _, next := range list[i+1:] {
			exit = exit && next.before == "&&"
		}
		through, cut := pipe(list[i+1:])
		for _, one := range targets(words) {
			if kind, ok := checkKind(one); ok {
				out = append(out, ccCheckCommand{kind: kind, id: folder + "\x00" + one + through, exit: exit, first: first, cut: cut})
			}
		}
		first = first && (words == "" || harmless.MatchString(words))
	}
	return out
}

// harmless are commands that don't fail.
var harmless = regexp.MustCompile(`^(?:export|source|\.|set|echo|true|pwd|mkdir -p|unset)(?: |$)|^\w+=`)

// pipe is what a command's output goes through, and whether something of it may be missing then: the end of it, which is
// where runners sum up, is taken for the whole.
func pipe(next []ccSegment) (through string, cut bool) {
	for _, s := range next {
		if s.before != "|" {
			break
		}
		words := command(s.text)
		program, _, _ := strings.Cut(words, " ")
		switch program {
		case "tee", "cat":
		case "tail":
			through += "\x00" + words
		default:
			through, cut = through+"\x00"+words, true
		}
	}
	return through, cut
}

// targets parts a runner's command with several tasks, all of them checks, into one for each.
func targets(words string) []string {
	tasks := strings.Fields(strings.TrimPrefix(words, "RUN "))
	if !strings.HasPrefix(words, "RUN ") || len(tasks) < 2 {
		return []string{words}
	}
	out := make([]string, len(tasks))
	for i, task := range tasks {
		out[i] = "RUN " + task
		if _, ok := checkKind(out[i]); !ok {
			return []string{words}
		}
	}
	return out
}
