package feed

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"millrace/internal/objstore"
	"millrace/schemas/manifest"
)

// pageLimit is the most manifests in one answer.
const pageLimit = 1000

// Policy is a policy version that has shards.
type Policy struct {
	PolicyVersion string    `json:"policy_version"`
	Shards        int64     `json:"shards"` // the last number of its sequence
	Rows          int64     `json:"rows"`
	TrainedTokens int64     `json:"trained_tokens"`
	Bytes         int64     `json:"bytes"`
	LogTime       time.Time `json:"log_time"` // of its last shard
}

// Policies is the answer of GET /v1/policies.
type Policies struct {
	Policies []Policy `json:"policies"`
}

// Shards is the answer of GET /v1/policies/{version}/shards: the manifests after a number, at most 1,000.
type Shards struct {
	PolicyVersion string           `json:"policy_version"`
	Shards        []manifest.Shard `json:"shards"`
	Next          int64            `json:"next"` // give it as after to go on
}

// Handler serves what trainers pull:
//
//	GET  /v1/policies                                            policy versions that have shards
//	GET  /v1/policies/{version}/shards?after=N&wait=30s&limit=M  manifests from N+1 on; waits for one if there is none yet
//	GET  /v1/shards/{id}                                         the file: Range, If-Range, ETag (its SHA-256), HEAD
//
// A version is escaped as one segment of the path ("a/b" is a%2Fb). "Range: bytes=8-" of a shard is an Arrow stream.
// Errors are JSON: {"error": code, "message": what to do}.
func (f *Feed) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/policies", f.policies)
	mux.HandleFunc("GET /v1/policies/{version}/shards", f.shards)
	mux.HandleFunc("GET /v1/shards/{id}", f.shard)
	return f.cfg.Guard(mux)
}

func (f *Feed) policies(w http.ResponseWriter, r *http.Request) {
	rows, err := f.pool.Query(r.Context(), `select policy_version, max(number), sum(rows)::bigint, sum(trained_tokens)::bigint, sum(bytes)::bigint, max(log_time)
		from shard where number is not null group by 1 order by max(log_time), 1`)
	if err != nil {
		f.unavailable(w, r, err)
		return
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Policy])
	if err != nil {
		f.unavailable(w, r, err)
		return
	}
	answer := Policies{Policies: make([]Policy, 0, len(all))}
	for _, p := range all {
		p.LogTime = p.LogTime.UTC()
		answer.Policies = append(answer.Policies, p)
	}
	writeJSON(w, http.StatusOK, answer)
}

func (f *Feed) shards(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	after, limit, wait := int64(0), int64(pageLimit), time.Duration(0)
	var err error
	if s := query.Get("after"); s != "" {
		if after, err = strconv.ParseInt(s, 10, 64); err != nil || after < 0 {
			refuse(w, http.StatusBadRequest, "bad_request", fmt.Sprintf("after=%s: give the number of the last manifest you have; 0 for none", s))
			return
		}
	}
	if s := query.Get("limit"); s != "" {
		if limit, err = strconv.ParseInt(s, 10, 64); err != nil || limit < 1 {
			refuse(w, http.StatusBadRequest, "bad_request", fmt.Sprintf("limit=%s: give 1 to %d", s, pageLimit))
			return
		}
	}
	if s := query.Get("wait"); s != "" {
		if wait, err = time.ParseDuration(s); err != nil || wait < 0 {
			refuse(w, http.StatusBadRequest, "bad_request", fmt.Sprintf("wait=%s: give a time with its unit, such as 30s", s))
			return
		}
	}
	version := r.PathValue("version")
	found, err := f.await(r.Context(), version, after, min(limit, pageLimit), min(wait, f.cfg.MaxWait))
	if err != nil {
		f.unavailable(w, r, err)
		return
	}
	answer := Shards{PolicyVersion: version, Shards: found, Next: after}
	if n := len(found); n > 0 {
		answer.Next = found[n-1].Number
	}
	writeJSON(w, http.StatusOK, answer)
}

// await looks for manifests until there are some, or the wait is over.
func (f *Feed) await(ctx context.Context, version string, after, limit int64, wait time.Duration) ([]manifest.Shard, error) {
	deadline := time.NewTimer(wait)
	defer deadline.Stop()
	look := time.NewTicker(5 * time.Second) // should the news not come
	defer look.Stop()
	for {
		next := f.news.wait()
		rows, err := f.pool.Query(ctx, shardQuery+` where policy_version = $1 and number > $2 order by number limit $3`, version, after, limit)
		if err != nil {
			return nil, err
		}
		found, err := pgx.CollectRows(rows, scanShard)
		if err != nil || len(found) > 0 || wait <= 0 {
			return found, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-deadline.C:
			wait = 0 // one last look
		case <-f.cfg.Stopping:
			wait = 0
		case <-next:
		case <-look.C:
		}
	}
}

func (f *Feed) shard(w http.ResponseWriter, r *http.Request) {
	var key, digest string
	var size int64
	id := r.PathValue("id")
	err := f.pool.QueryRow(r.Context(), `select key, sha256, bytes from shard where id = $1 and kind = 'sample'`, id).Scan(&key, &digest, &size)
	if errors.Is(err, pgx.ErrNoRows) {
		refuse(w, http.StatusNotFound, "not_found", fmt.Sprintf("no shard %q was committed; ids stand in the manifests", id))
		return
	}
	if err != nil {
		f.unavailable(w, r, err)
		return
	}
	switch there, err := f.store.Stat(r.Context(), key); {
	case errors.Is(err, objstore.ErrNotFound):
		f.log.Error("feed: a committed shard is gone", "shard", id, "key", key)
		refuse(w, http.StatusInternalServerError, "object_missing", "the shard was committed, but its object is gone: tell the operator (`millrace shards verify`)")
		return
	case err != nil:
		f.unavailable(w, r, err)
		return
	case there != size:
		f.log.Error("feed: a committed shard has another size", "shard", id, "key", key, "bytes", there, "committed", size)
		refuse(w, http.StatusInternalServerError, "object_damaged", "the shard's object is not the one that was committed: tell the operator (`millrace shards verify`)")
		return
	}
	body := objstore.NewReader(r.Context(), f.store, key, size)
	defer body.Close()
	h := w.Header()
	h.Set("Content-Type", "application/vnd.apache.arrow.file")
	h.Set("ETag", `"`+digest+`"`)
	h.Set("Cache-Control", "private, max-age=31536000, immutable")
	if raw, err := hex.DecodeString(digest); err == nil {
		h.Set("Repr-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(raw)+":")
	}
	http.ServeContent(w, r, "", time.Time{}, body)
}

func (f *Feed) unavailable(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		return // the client is gone
	}
	f.log.Error("feed: request failed", "path", r.URL.Path, "error", err)
	w.Header().Set("Retry-After", "2")
	refuse(w, http.StatusServiceUnavailable, "unavailable", "the database or the object store is away; try again")
}

func refuse(w http.ResponseWriter, status int, code, message string) {
	writeJSON(w, status, map[string]string{"error": code, "message": message})
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(body) //nolint:errcheck // the client is gone
}
