package auth

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Created is the answer to a token's creation: the only place where the secret ever stands.
type Created struct {
	Secret string  `json:"token"`
	Name   string  `json:"name"`
	Scopes []Scope `json:"scopes"`
}

// CreateRequest asks for a token.
type CreateRequest struct {
	Name   string   `json:"name"`
	Scopes []string `json:"scopes"`
}

// Handler serves the tokens themselves to holders of the scope admin: POST and GET /v1/tokens, DELETE
// /v1/tokens/{idOrName}.
func Handler(pool *pgxpool.Pool, guard *Guard) http.Handler {
	mux := http.NewServeMux()
	admin := guard.Middleware(Admin)
	mux.Handle("POST /v1/tokens", admin(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request CreateRequest
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10)).Decode(&request); err != nil {
			refuse(w, http.StatusBadRequest, "bad_request", `send {"name": "…", "scopes": ["…"]}: `+err.Error())
			return
		}
		scopes, err := ParseScopes(request.Scopes)
		if err == nil {
			err = checkName(request.Name)
		}
		if err != nil {
			refuse(w, http.StatusBadRequest, "bad_request", err.Error())
			return
		}
		secret, err := Create(r.Context(), pool, request.Name, scopes)
		if err != nil {
			refuse(w, http.StatusServiceUnavailable, "unavailable", "the token could not be stored")
			return
		}
		answer(w, http.StatusCreated, Created{Secret: secret, Name: request.Name, Scopes: scopes})
	})))
	mux.Handle("GET /v1/tokens", admin(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tokens, err := List(r.Context(), pool)
		if err != nil {
			refuse(w, http.StatusServiceUnavailable, "unavailable", "tokens can't be read now")
			return
		}
		answer(w, http.StatusOK, map[string]any{"tokens": tokens})
	})))
	mux.Handle("DELETE /v1/tokens/{idOrName}", admin(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, err := Revoke(r.Context(), pool, r.PathValue("idOrName"))
		switch {
		case errors.Is(err, ErrNoToken):
			refuse(w, http.StatusNotFound, "not_found", err.Error())
		case errors.Is(err, ErrAmbiguous):
			refuse(w, http.StatusConflict, "ambiguous", err.Error())
		case err != nil:
			refuse(w, http.StatusServiceUnavailable, "unavailable", "the token could not be revoked")
		default:
			answer(w, http.StatusOK, token)
		}
	})))
	return mux
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(body) //nolint:errcheck // the client is gone
}
