// Package migrations holds the database schema, applied in order by goose.
package migrations

import "embed"

//go:embed *.sql
var Files embed.FS
