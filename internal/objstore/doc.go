// Package objstore keeps immutable objects by key, in a local folder or in anything that speaks S3.
//
// An object is written once: PutIfAbsent either makes it whole and durable or leaves nothing, and never
// overwrites. Writing the same bytes again under the same key is success, so a writer that crashed between
// its put and its commit simply does it again. The one exception is Replace, for small pointers such as
// live.json that are meant to change.
//
// Keys are slash-separated paths of at most 1,024 bytes ("staging/events-3-100-199-ab12.arrow"); no segment
// is empty, ".", ".." or longer than 255 bytes, and none holds a backslash or a control character.
//
// A folder is the reference; the conformance suite runs against both.
package objstore
