package signal

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHasStackTrace(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"Python":     "теперь так:\nTraceback (most recent call last):\n  File \"a/b.py\", line 12, in <module>\n    main()\nValueError: no",
		"Go":         "panic: runtime error: index out of range\n\ngoroutine 1 [running]:\nmain.main()\n\t/home/u/x/main.go:12 +0x1d\nexit status 2",
		"Java":       "java.lang.IllegalStateException: closed\r\n\tat com.x.Store.get(Store.java:41)\r\n\tat com.x.Main.main(Main.java:9)\r\n",
		"JavaScript": "TypeError: x is undefined\n    at run (/srv/app/index.js:10:5)\n    at node:internal/main:23:47",
		"Firefoxish": "Uncaught TypeError: x is null\n    at https://example.org/app.js:3:9",
		"Rust":       "thread 'main' panicked at src/main.rs:3:10:\ncalled `Option::unwrap()`\nstack backtrace:\n   0: rust_begin_unwind\n             at /rustc/abc/library/std/src/panicking.rs:647:5",
		".NET":       "System.NullReferenceException: Object reference\n   at App.Run(String s) in /src/App.cs:line 14",
		"Ruby":       "app.rb:3:in `get': undefined method (NoMethodError)\n\tfrom app.rb:9:in `<main>'\n\tfrom app.rb:10:in 'Object#x'",
		"PHP":        "PHP Fatal error:  Uncaught Exception: no in /a.php:3\n#0 /a.php(9): get()\n#1 {main}",
		"C":          "#0  0x0000555555555131 in get (p=0x0) at main.c:4\n#1  0x0000555555555160 in main () at main.c:9",
		"sanitizer":  "==7==ERROR: AddressSanitizer: heap-use-after-free\n    #0 0x4f2a in main /src/a.c:4",
		"Dart":       "#0      main (file:///a/b.dart:3:5)\n#1      _run (dart:isolate:12:3)",
		"Elixir":     "** (ArgumentError) no\n    (app 0.1.0) lib/app.ex:3: App.get/1\n    (elixir 1.1) lib/enum.ex:12: Enum.map/2",
	} {
		require.True(t, HasStackTrace(text), name)
	}
	for name, text := range map[string]string{
		"nothing":            "",
		"prose":              "it fails at startup with a ValueError, please fix",
		"one place":          "look at main.go:12 and fix the off-by-one",
		"times":              "the standup is\nat 10:30\nat 11:15",
		"one error":          "TypeError: x is undefined",
		"a list of places":   "src/a.go:12\nsrc/b.go:14\nlib/x.rb:3",
		"compiler's errors":  "./main.go:10:5: undefined: x\n./main.go:12:1: syntax error",
		"code":               "try {\n  run()\n} catch (e) {\n  throw new TypeError('x')\n}",
		"a blob on one line": "at " + strings.Repeat("x/", 5000) + "a.js:1:1",
		"numbered list":      "#1 fix the parser\n#2 write the test at noon today",
	} {
		require.False(t, HasStackTrace(text), name)
	}
}
