package privacy

import (
	"regexp"
	"strings"

	"millrace/schemas/event"
)

// secret is one kind of credential that is recognised by its shape alone. The literal must stand in every match:
// where it is missing the expression, which is slow, isn't tried.
type secret struct {
	kind     string
	literals []string
	shape    *regexp.Regexp
	random   bool // the match must look random: the shape alone also fits ordinary words
}

// No match holds a quote or ends inside an escape, so JSON stays the JSON that it was: arguments are judged by their
// raw text. Only a private key may span line breaks, escaped ones too.
var secrets = []secret{
	{"private-key", []string{"PRIVATE KEY-----"}, regexp.MustCompile(
		`-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----(?:[A-Za-z0-9+/=\s:,.\-\\]*?-----END [A-Z0-9 ]*PRIVATE KEY-----|(?:[A-Za-z0-9+/=\s]|\\[nr])*)`), false},
	{"aws-key", []string{"AKIA", "ASIA"}, regexp.MustCompile(`\b(?:AKIA|ASIA)[0-9A-Z]{16}\b`), false},
	{"github-token", []string{"ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"}, regexp.MustCompile(`\b(?:gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{60,255})`), false},
	{"gitlab-token", []string{"glpat-"}, regexp.MustCompile(`\bglpat-[A-Za-z0-9_-]{20,}`), false},
	{"slack-token", []string{"xox"}, regexp.MustCompile(`\bxox[abeposr]-[A-Za-z0-9-]{10,}`), false},
	{"google-key", []string{"AIza"}, regexp.MustCompile(`\bAIza[0-9A-Za-z_-]{35}`), false},
	{"stripe-key", []string{"k_live_"}, regexp.MustCompile(`\b[sr]k_live_[A-Za-z0-9]{20,}`), false},
	{"model-api-key", []string{"sk-"}, regexp.MustCompile(`\bsk-[A-Za-z0-9_-]{20,}`), true},
	{"npm-token", []string{"npm_"}, regexp.MustCompile(`\bnpm_[A-Za-z0-9]{36}`), false},
	{"huggingface-token", []string{"hf_"}, regexp.MustCompile(`\bhf_[A-Za-z0-9]{30,}`), true},
	{"millrace-token", []string{"mr_"}, regexp.MustCompile(`\bmr_[A-Za-z0-9_-]{43}`), true},
	{"jwt", []string{"eyJ"}, regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}`), false},
	{"url-password", []string{"://"}, regexp.MustCompile(`(?P<before>\b[a-z][a-z0-9+.-]*://[^\s:/@"'\\<>]*:)[^\s@/"'\\<>$*{\[]+(?P<after>@)`), false},
}

// Text replaces the secrets in a text by "[redacted:kind]" and returns how many there were.
func Text(text string) (string, int) {
	found := 0
	for i := range secrets {
		s := &secrets[i]
		if !s.mayStandIn(text) {
			continue
		}
		text = s.shape.ReplaceAllStringFunc(text, func(match string) string {
			if s.random && !looksRandom(match) {
				return match
			}
			found++
			marker := "[redacted:" + s.kind + "]"
			if s.shape.NumSubexp() == 2 {
				// Only what stands between scheme and host is secret.
				return s.shape.ReplaceAllString(match, "${before}"+marker+"${after}")
			}
			return marker
		})
	}
	return text, found
}

func (s *secret) mayStandIn(text string) bool {
	for _, literal := range s.literals {
		if strings.Contains(text, literal) {
			return true
		}
	}
	return false
}

// looksRandom tells a key from a hyphenated name: keys mix upper case, lower case and digits.
func looksRandom(s string) bool {
	var upper, lower, digit bool
	for _, c := range s {
		upper = upper || 'A' <= c && c <= 'Z'
		lower = lower || 'a' <= c && c <= 'z'
		digit = digit || '0' <= c && c <= '9'
	}
	return upper && lower && digit
}

// Redact replaces the secrets in every text that the event carries and returns how many there were. Token ids are
// not text: a secret inside them can't be seen here.
func Redact(e *event.SessionEvent) int {
	n := 0
	redact := func(text *string) {
		clean, found := Text(*text)
		*text = clean
		n += found
	}
	switch b := e.Body.(type) {
	case *event.SessionEvent_TurnStarted:
		redact(&b.TurnStarted.Text)
	case *event.SessionEvent_ToolCalled:
		switch raw := b.ToolCalled.Raw.(type) {
		case *event.ToolCalled_Arguments:
			redact(&raw.Arguments)
		case *event.ToolCalled_ArgumentsBytes:
			if clean, found := Text(string(raw.ArgumentsBytes)); found > 0 {
				raw.ArgumentsBytes = []byte(clean)
				n += found
			}
		}
	case *event.SessionEvent_ToolReturned:
		redact(&b.ToolReturned.Output)
	case *event.SessionEvent_EditObserved:
		for _, h := range b.EditObserved.Hunks {
			redact(&h.Before)
			redact(&h.Ai)
			redact(&h.Now)
		}
	case *event.SessionEvent_InfrastructureReported:
		redact(&b.InfrastructureReported.Detail)
	}
	return n
}
