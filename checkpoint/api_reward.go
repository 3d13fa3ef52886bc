package checkpoint

import (
	"net/http"

	"github.com/jackc/pgx/v5"

	"millrace/checkpoint/adoption"
)

// Reward is what GET /v1/reward answers: what is in force, and its documents.
type Reward struct {
	adoption.InForce
	Documents adoption.Documents `json:"documents"`
}

func (a *API) rewardInForce(r *http.Request) (any, error) {
	current, err := adoption.Current(r.Context(), a.DB, a.Store)
	if err != nil {
		return nil, err
	}
	documents, err := adoption.Read(r.Context(), a.Store, *current)
	if err != nil {
		return nil, err
	}
	return Reward{*current, *documents}, nil
}

func (a *API) rewardHistory(r *http.Request) (any, error) {
	all, err := adoption.History(r.Context(), a.DB, a.Store)
	return map[string]any{"rewards": orEmpty(all)}, err
}

func (a *API) adoptReward(r *http.Request) (any, error) {
	var q adoption.Request
	if err := read(r, &q); err != nil {
		return nil, err
	}
	tx := func(fn func(pgx.Tx) error) error { return a.tx(r.Context(), fn) }
	return adoption.Adopt(r.Context(), a.DB, a.Store, tx, &q, who(r), a.Now())
}
