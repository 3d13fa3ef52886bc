// Package arrowfile is the only codec of Arrow IPC and Parquet: sample shards and the ledger, between rows and bytes.
//
// A shard is an Arrow IPC file that is a stream from byte 8 on:
//
//	ARROW1␀␀ │ schema │ batch … │ ff ff ff ff 00 00 00 00 │ footer │ its length │ ARROW1
//	         └──────── the stream (Range: bytes=8-) ──────┘
//
// arrow/go v17 is frozen; these are its defects, and where each is met:
//
//   - its file writer leaves out the end-of-stream marker: written just before Close (shard.go);
//   - without a batch it writes no schema before Close: an empty shard holds one empty batch;
//   - it swallows errors of compression: WriteShard and WriteLedger read back what they wrote;
//   - its stream reader takes a truncated stream for a clean end: the marker must stand at the footer, and the rows
//     are counted (guard.go, shard.go);
//   - corrupt input can panic or exhaust memory: readers recover, and guard.go refuses lengths that reach beyond the
//     bytes. That is for accidents. Bytes from elsewhere are compared with their size and SHA-256 first: Arrow has
//     no checksum, and a flipped bit in a plain token is a valid token.
//
// The same rows give the same bytes with the same build. Across versions of the codecs rows are equal, bytes may differ.
package arrowfile
