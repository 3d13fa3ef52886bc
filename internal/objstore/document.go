package objstore

// DocumentKey is where a document of the control plane lies (a reward spec, a baseline), by its SHA-256 in hex.
func DocumentKey(digest string) string { return "documents/" + digest }
