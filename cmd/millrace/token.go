package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"millrace/internal/auth"
	"millrace/internal/postgres"
)

// TokenCommand makes, lists and revokes the bearer tokens of the API.
type TokenCommand struct {
	Create TokenCreate `cmd:"" help:"Make a token; its secret is shown once."`
	List   TokenList   `cmd:"" help:"All tokens, without their secrets."`
	Revoke TokenRevoke `cmd:"" help:"End a token, by id or name."`
}

// tokenStore says where tokens are kept: behind a server's API, or in the database itself.
type tokenStore struct {
	Remote   `embed:""`
	Postgres string `env:"MILLRACE_POSTGRES" placeholder:"URL" help:"Work on this database instead of asking a server."`
}

// in works on the database if one was given, and says whether it was.
func (s *tokenStore) in(ctx context.Context, work func(*pgxpool.Pool) error) (bool, error) {
	if s.Postgres == "" {
		return false, nil
	}
	pool, err := postgres.Open(ctx, s.Postgres, "millrace token")
	if err != nil {
		return true, err
	}
	defer pool.Close()
	return true, work(pool)
}

// TokenCreate makes a token.
type TokenCreate struct {
	tokenStore `embed:""`
	Name       string   `arg:"" help:"What it is for."`
	Scope      []string `required:"" placeholder:"SCOPE,…" help:"What its holder may do: events:write, assign:read, shards:read, candidates:write, evals:write, gates:read, releases:write, rewards:write, admin."`
}

// Help is what --help adds.
func (c *TokenCreate) Help() string {
	return "  millrace token create ide-backend --scope events:write,assign:read"
}

// Run implements the command.
func (c *TokenCreate) Run(ctx context.Context, out *Output) error {
	scopes, err := auth.ParseScopes(c.Scope)
	if err != nil {
		return usagef("--scope: %v", err)
	}
	created := auth.Created{Name: c.Name, Scopes: scopes}
	direct, err := c.in(ctx, func(pool *pgxpool.Pool) error {
		created.Secret, err = auth.Create(ctx, pool, c.Name, scopes)
		return err
	})
	if !direct {
		err = c.call(ctx, http.MethodPost, "/v1/tokens", auth.CreateRequest{Name: c.Name, Scopes: c.Scope}, &created)
	}
	if err != nil {
		return err
	}
	if out.JSON {
		return out.Object(created)
	}
	out.Print("%s", created.Secret)
	fmt.Fprintf(out.Err, "this is the only time that the token of %q is shown\n", created.Name)
	return nil
}

// TokenList shows the tokens.
type TokenList struct {
	tokenStore `embed:""`
}

// Run implements the command.
func (c *TokenList) Run(ctx context.Context, out *Output) error {
	var listed struct {
		Tokens []auth.Token `json:"tokens"`
	}
	direct, err := c.in(ctx, func(pool *pgxpool.Pool) (err error) {
		listed.Tokens, err = auth.List(ctx, pool)
		return err
	})
	if !direct {
		err = c.call(ctx, http.MethodGet, "/v1/tokens", nil, &listed)
	}
	if err != nil {
		return err
	}
	if out.JSON {
		return out.Object(listed)
	}
	t := tabwriter.NewWriter(out.Out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tNAME\tSCOPES\tMADE\tREVOKED")
	for _, token := range listed.Tokens {
		revoked := "-"
		if token.RevokedAt != nil {
			revoked = token.RevokedAt.UTC().Format(time.DateTime)
		}
		names := make([]string, len(token.Scopes))
		for i, s := range token.Scopes {
			names[i] = string(s)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", token.ID, token.Name, strings.Join(names, " "), token.CreatedAt.UTC().Format(time.DateTime), revoked)
	}
	return t.Flush()
}

// TokenRevoke ends a token.
type TokenRevoke struct {
	tokenStore `embed:""`
	Which      string `arg:"" name:"id-or-name" help:"The token, as token list shows it."`
}

// Run implements the command.
func (c *TokenRevoke) Run(ctx context.Context, out *Output) error {
	var token auth.Token
	direct, err := c.in(ctx, func(pool *pgxpool.Pool) (err error) {
		token, err = auth.Revoke(ctx, pool, c.Which)
		return err
	})
	if !direct {
		err = c.call(ctx, http.MethodDelete, "/v1/tokens/"+url.PathEscape(c.Which), nil, &token)
	}
	if err != nil {
		return err
	}
	if out.JSON {
		return out.Object(token)
	}
	out.Print("token %s (%s) is revoked; processes that know it forget it within seconds", token.ID, token.Name)
	return nil
}
