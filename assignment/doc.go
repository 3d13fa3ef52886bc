// Package assignment lets a backend decide by itself which checkpoint serves a unit: it fetches a signed ruleset from
// Millrace, and evaluates it in memory, a few hundred nanoseconds each, with Millrace reachable or not.
//
//	GET /v1/ruleset ─▶ Verify: one of your keys signed it ─▶ Ruleset.Assign: hold-back → experiment → live
//	                   Client does both: it asks again and again, and keeps what it had until valid_until
//
// The gateways serve OFREP with the same code. The document, the rules and the errors are the same in
// clients/typescript and clients/python; testdata/vectors.json holds all three to it. How the format changes: a new
// field that older readers may ignore leaves it "millrace.ruleset/1"; anything that would change an assignment makes it
// "/2", which older readers refuse (ErrUnsupported) rather than misread.
package assignment
