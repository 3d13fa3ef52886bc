package eventjson

// The scanner finds where JSON values end without judging what is inside, so that one broken value among many stays
// one broken value. It knows strings and counts brackets; the parser judges the pieces. It never recurses.

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

func skipSpace(b []byte, i int) int {
	for i < len(b) && isSpace(b[i]) {
		i++
	}
	return i
}

// trim is b without white space around it.
func trim(b []byte) []byte {
	b = b[skipSpace(b, 0):]
	for len(b) > 0 && isSpace(b[len(b)-1]) {
		b = b[:len(b)-1]
	}
	return b
}

// stringEnd is the index after the string that begins at i, or -1 if it doesn't end.
func stringEnd(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return -1
}

// balanced returns the index after the bracket that closes the first one of b, and how deep brackets are nested before
// it. The index is -1 if a string or a bracket doesn't end.
func balanced(b []byte) (end, deepest int) {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			if i = stringEnd(b, i) - 1; i < 0 {
				return -1, deepest
			}
		case '{', '[':
			depth++
			deepest = max(deepest, depth)
		case '}', ']':
			if depth--; depth <= 0 {
				return i + 1, deepest
			}
		}
	}
	return -1, deepest
}

// piece returns the index of the first ',' or closing bracket from i on that stands outside all brackets opened since:
// where a value among others ends. It is -1 if there is none.
func piece(b []byte, i int) int {
	depth := 0
	for ; i < len(b); i++ {
		switch b[i] {
		case '"':
			if i = stringEnd(b, i) - 1; i < 0 {
				return -1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i
			}
			depth--
		case ',':
			if depth == 0 {
				return i
			}
		}
	}
	return -1
}

// member is a key with its quotes and a value of an object, as places in its text.
type member struct{ key, keyEnd, value, valueEnd int }

// members calls each for the members of the object that b holds, until it returns false, and says whether the
// object's outline could be read to its end. Values are what stands between ':' and ',' or '}', trimmed.
func members(b []byte, each func(member) bool) bool {
	i := skipSpace(b, 0)
	if i >= len(b) || b[i] != '{' {
		return false
	}
	i = skipSpace(b, i+1)
	if i < len(b) && b[i] == '}' {
		return skipSpace(b, i+1) == len(b)
	}
	for i < len(b) && b[i] == '"' {
		m := member{key: i}
		if m.keyEnd = stringEnd(b, i); m.keyEnd < 0 {
			return false
		}
		i = skipSpace(b, m.keyEnd)
		if i >= len(b) || b[i] != ':' {
			return false
		}
		end := piece(b, i+1)
		if end < 0 {
			return false
		}
		m.value = skipSpace(b, i+1)
		m.valueEnd = m.value + len(trim(b[min(m.value, end):end]))
		if !each(m) {
			return true
		}
		if b[end] == '}' {
			return skipSpace(b, end+1) == len(b)
		}
		if b[end] != ',' {
			return false
		}
		i = skipSpace(b, end+1)
	}
	return false
}

// elements splits the array that b holds into its elements, trimmed, and says whether its outline could be read. It
// stops once it has more than limit.
func elements(b []byte, limit int) ([][]byte, bool) {
	i := skipSpace(b, 0)
	if i >= len(b) || b[i] != '[' {
		return nil, false
	}
	i++
	if j := skipSpace(b, i); j < len(b) && b[j] == ']' {
		return nil, skipSpace(b, j+1) == len(b)
	}
	var all [][]byte
	for len(all) <= limit {
		end := piece(b, i)
		if end < 0 || b[end] == '}' {
			return nil, false
		}
		all = append(all, trim(b[i:end]))
		if b[end] == ']' {
			return all, skipSpace(b, end+1) == len(b)
		}
		i = end + 1
	}
	return all, true
}
