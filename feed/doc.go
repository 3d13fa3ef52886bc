// Package feed is what trainers pull: numbered manifests, shards by HTTP and in the object store, and the compacted ledger.
//
// Distill commits shards; nothing there numbers them. One process at a time, the publisher (a fenced leader), does
// what must not be done twice, in this order:
//
//	committed rows of shard ─▶ number per policy version ─▶ manifests/{version}/{N}.json ─▶ published
//	committed ledger shards of a whole log-hour ─▶ ledger/….parquet ─▶ ledger_file, sources marked in one transaction
//	ledger files of the hours of a whole log-day ─▶ ledger/….parquet ─▶ the same again, one level higher
//	objects in staging/ and ledger/ that no row needs and none ever will ─▶ deleted, after a grace period
//
// Every write of it checks its term. What it puts into the object store is made of committed rows alone, so that a
// former publisher that wakes up can only write the same bytes again. Any number of processes serve the API.
package feed
