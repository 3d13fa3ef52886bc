// Command goldens writes shards and ledger files with known values, for readers in other languages to compare.
package main
