// Package xz decompresses .xz files made of LZMA2 alone, as tar and xz write them: what Postgres's binaries come in.
//
// The format is The .xz File Format 1.2.1 (tukaani.org/xz/xz-file-format.txt); LZMA is as in Igor Pavlov's
// specification (7-zip.org, lzma-specification.txt). Blocks' checks of kind CRC32 and CRC64 are verified; the index
// at the end isn't looked at.
package xz
