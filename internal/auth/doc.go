// Package auth knows who may call what: bearer tokens that are stored as hashes, each with scopes. Deny by default.
package auth
