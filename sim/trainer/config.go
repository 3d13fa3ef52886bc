package trainer

import (
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"time"
)

// Config says where cuts come from and where weights go. URL, Token and Outbox are required.
type Config struct {
	// URL is the API's: http://127.0.0.1:8080.
	URL string
	// Token has the scopes shards:read, gates:read and candidates:write.
	Token string
	// Outbox is the folder under which each version's weights are written, and from which they are handed in.
	Outbox string
	// Context is the longest sequence trained on, tokens; longer ones are dropped, and declared. 8,192 by default.
	Context int
	// Steps of the gradient, 30 by default, each of Rate, .5 by default; KL is the weight of the penalty on
	// leaving the base, .1 by default.
	Steps    int
	Rate, KL float64
	// Every is how often Run looks for a cut; 2 s by default.
	Every time.Duration
	// Client sends the requests; one with a timeout of 60 s by default.
	Client *http.Client
}

func (c Config) withDefaults() Config {
	if c.Context == 0 {
		c.Context = 8192
	}
	if c.Steps == 0 {
		c.Steps = 30
	}
	if c.Rate == 0 {
		c.Rate = .5
	}
	if c.KL == 0 {
		c.KL = .1
	}
	if c.Every == 0 {
		c.Every = 2 * time.Second
	}
	if c.Client == nil {
		c.Client = &http.Client{Timeout: time.Minute}
	}
	return c
}

// Validate says what is wrong with the configuration.
func (c Config) Validate() error {
	c = c.withDefaults()
	switch {
	case c.URL == "":
		return errors.New("trainer: URL is missing; give the API's, such as http://127.0.0.1:8080")
	case !filepath.IsAbs(c.Outbox):
		return fmt.Errorf("trainer: Outbox is %q; give the absolute path of a folder, since it becomes a file:// URI", c.Outbox)
	case c.Context < 1 || c.Steps < 1:
		return fmt.Errorf("trainer: Context is %d and Steps is %d; both must be at least 1", c.Context, c.Steps)
	case c.Rate < 0 || c.KL < 0:
		return fmt.Errorf("trainer: Rate is %g and KL is %g; neither may be below 0", c.Rate, c.KL)
	}
	return nil
}
