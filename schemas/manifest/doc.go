// Package manifest is the entry of a shard in its policy version's sequence: what a trainer follows, by HTTP or as objects.
package manifest
