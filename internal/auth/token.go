package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Prefix begins every token, so that people and scanners recognise one.
const Prefix = "mr_"

// Token is what is known of a token; the secret itself is never stored.
type Token struct {
	ID        string     `json:"id"` // the first 12 hex digits of its SHA-256: safe to show
	Name      string     `json:"name"`
	Scopes    []Scope    `json:"scopes"`
	CreatedAt time.Time  `json:"created_at"`
	RevokedAt *time.Time `json:"revoked_at,omitempty"`
}

// Allows says whether the token has the scope.
func (t Token) Allows(scope Scope) bool {
	return slices.Contains(t.Scopes, scope) || slices.Contains(t.Scopes, Admin)
}

// ErrNoToken means that a revocation names no live token, ErrAmbiguous that it names several.
var (
	ErrNoToken   = errors.New("no such live token")
	ErrAmbiguous = errors.New("several live tokens have this name")
)

// Create makes a token with the scopes and returns its secret, which can't be read again.
func Create(ctx context.Context, pool *pgxpool.Pool, name string, scopes []Scope) (string, error) {
	if err := checkName(name); err != nil {
		return "", err
	}
	return insert(ctx, pool, name, scopes)
}

func checkName(name string) error {
	if name == "" || len(name) > 200 || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return fmt.Errorf("token name %.20q: needs 1 to 200 bytes of text, to know later what it is for", name)
	}
	return nil
}

// List gives all tokens, revoked ones too, oldest first.
func List(ctx context.Context, pool *pgxpool.Pool) ([]Token, error) {
	all, err := load(ctx, pool)
	if err != nil {
		return nil, err
	}
	tokens := make([]Token, 0, len(all))
	for _, s := range all {
		tokens = append(tokens, s.Token)
	}
	return tokens, nil
}

// Revoke ends a token, by its id or its name, at once here and within the cache's life elsewhere. ErrNoToken if
// there is none; a name that several live tokens have must be told apart by id.
func Revoke(ctx context.Context, pool *pgxpool.Pool, idOrName string) (Token, error) {
	all, err := load(ctx, pool)
	if err != nil {
		return Token{}, err
	}
	var found []stored
	for _, s := range all {
		if s.RevokedAt == nil && (s.ID == idOrName || s.Name == idOrName) {
			found = append(found, s)
		}
	}
	switch len(found) {
	case 0:
		return Token{}, fmt.Errorf("token %q: %w; `millrace token list` shows all", idOrName, ErrNoToken)
	case 1:
	default:
		return Token{}, fmt.Errorf("token %q: %w (%d); revoke by id (`millrace token list`)", idOrName, ErrAmbiguous, len(found))
	}
	now := time.Now().UTC()
	if _, err := pool.Exec(ctx, `update token set revoked_at = $2 where sha256 = $1 and revoked_at is null`, found[0].sha256, now); err != nil {
		return Token{}, fmt.Errorf("revoke token %s: %w", found[0].ID, err)
	}
	found[0].RevokedAt = &now
	return found[0].Token, nil
}

// firstLock keeps two processes that start together from both making the first token.
const firstLock = 0x6d696c6c72616365 // "millrace"

// EnsureFirst makes an admin token if there is no live one, and returns its secret, to be shown once; otherwise the
// secret is empty. keep, if not nil, puts the secret by before the token exists: a crash in between must not leave a
// token behind whose secret nobody has.
func EnsureFirst(ctx context.Context, pool *pgxpool.Pool, keep func(secret string) error) (string, error) {
	var secret string
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `select pg_advisory_xact_lock($1)`, int64(firstLock)); err != nil {
			return err
		}
		var exists bool
		err := tx.QueryRow(ctx, `select exists (select from token where revoked_at is null and $1 = any (scopes))`, string(Admin)).Scan(&exists)
		if err != nil || exists {
			return err
		}
		if secret, err = insert(ctx, tx, "first", []Scope{Admin}); err == nil && keep != nil {
			err = keep(secret)
		}
		return err
	})
	if err != nil {
		return "", fmt.Errorf("first token: %w", err)
	}
	return secret, nil
}

func insert(ctx context.Context, db interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}, name string, scopes []Scope,
) (string, error) {
	names := make([]string, len(scopes))
	for i, s := range scopes {
		names[i] = string(s)
	}
	if _, err := ParseScopes(names); err != nil {
		return "", err
	}
	random := make([]byte, 32)
	rand.Read(random) // never fails
	secret := Prefix + base64.RawURLEncoding.EncodeToString(random)
	var created time.Time
	err := db.QueryRow(ctx, `insert into token (sha256, name, scopes) values ($1, $2, $3) returning created_at`,
		Digest(secret), name, names).Scan(&created)
	if err != nil {
		return "", fmt.Errorf("store token %q: %w", name, err)
	}
	return secret, nil
}

// stored is a row of the table.
type stored struct {
	Token
	sha256 string
}

func load(ctx context.Context, pool *pgxpool.Pool) ([]stored, error) {
	rows, err := pool.Query(ctx, `select sha256, name, scopes, created_at, revoked_at from token order by created_at, sha256`)
	if err != nil {
		return nil, fmt.Errorf("read tokens: %w", err)
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (stored, error) {
		var s stored
		var names []string
		err := row.Scan(&s.sha256, &s.Name, &names, &s.CreatedAt, &s.RevokedAt)
		for _, n := range names {
			s.Scopes = append(s.Scopes, Scope(n))
		}
		s.ID = s.sha256[:min(12, len(s.sha256))]
		return s, err
	})
	if err != nil {
		return nil, fmt.Errorf("read tokens: %w", err)
	}
	return all, nil
}

// Digest is the name under which a secret is stored. A fast hash is right: the secret has 256 random bits.
func Digest(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}
