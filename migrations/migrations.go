// Package migrations holds the database schema, applied in order by goose.
package migrations

import "embed"

// Files are the migrations, by their names in this folder.
//
//go:embed *.sql
var Files embed.FS
