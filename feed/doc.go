// Package feed is what trainers pull: numbered manifests, shards by HTTP and in the object store, and the compacted ledger.
//
// Distill commits shards; nothing there numbers them. One process at a time, the publisher (a fenced leader), does
// what must not be done twice, in this order:
//
//	committed rows of shard ─▶ number per policy version ─▶ manifests/{version}/{N}.json ─▶ published
//	committed ledger shards of a whole log-hour ─▶ ledger/….parquet ─▶ ledger_file, sources marked in one transaction
//	objects in staging/ that no row names and none ever will ─▶ deleted
//
// Every write of it checks its term. What it puts into the object store is made of committed rows alone, so that a
// former publisher that wakes up can only write the same bytes again. Any number of processes serve the API.
package feed
