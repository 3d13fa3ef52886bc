package auth

import (
	"fmt"
	"slices"
	"strings"
)

// Scope is a right that a token may have.
type Scope string

// The scopes; Admin includes all of them.
const (
	EventsWrite     Scope = "events:write"     // send events, register tool schemas
	AssignRead      Scope = "assign:read"      // ask which checkpoint serves a unit
	ShardsRead      Scope = "shards:read"      // pull manifests, shards and the ledger
	CandidatesWrite Scope = "candidates:write" // submit candidates
	EvalsWrite      Scope = "evals:write"      // report offline evaluations
	GatesRead       Scope = "gates:read"       // read experiments, verdicts and their evidence
	ReleasesWrite   Scope = "releases:write"   // approve, promote, pause, roll back
	RewardsWrite    Scope = "rewards:write"    // adopt a reward spec and its baseline
	Admin           Scope = "admin"
)

// Scopes lists all of them.
var Scopes = []Scope{EventsWrite, AssignRead, ShardsRead, CandidatesWrite, EvalsWrite, GatesRead, ReleasesWrite, RewardsWrite, Admin}

// ParseScopes reads scopes by their names; an unknown or missing one is an error.
func ParseScopes(names []string) ([]Scope, error) {
	if len(names) == 0 {
		return nil, fmt.Errorf("a token needs at least one scope of: %s", scopeList())
	}
	scopes := make([]Scope, 0, len(names))
	for _, name := range names {
		scope := Scope(name)
		if !slices.Contains(Scopes, scope) {
			return nil, fmt.Errorf("unknown scope %q; there are: %s", name, scopeList())
		}
		if !slices.Contains(scopes, scope) {
			scopes = append(scopes, scope)
		}
	}
	return scopes, nil
}

func scopeList() string {
	names := make([]string, len(Scopes))
	for i, s := range Scopes {
		names[i] = string(s)
	}
	return strings.Join(names, ", ")
}
