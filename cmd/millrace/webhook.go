package main

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"

	"millrace/checkpoint"
)

// WebhookCommand looks at deliveries.
type WebhookCommand struct {
	Remote     `embed:""`
	Deliveries WebhookDeliveries `cmd:"" default:"withargs" help:"The endpoints, and what they were told: delivered, to be tried again, or given up."`
	Redeliver  WebhookRedeliver  `cmd:"" help:"Deliver an event to an endpoint again."`
}

// WebhookDeliveries lists.
type WebhookDeliveries struct {
	Endpoint string `placeholder:"NAME" help:"Only this endpoint's."`
	Limit    int    `default:"50" help:"The newest so many, at most 1000."`
}

// Run lists.
func (c *WebhookDeliveries) Run(ctx context.Context, out *Output, at *WebhookCommand) error {
	query := url.Values{"limit": {strconv.Itoa(c.Limit)}}
	if c.Endpoint != "" {
		query.Set("endpoint", c.Endpoint)
	}
	var answer checkpoint.Webhooks
	if err := at.call(ctx, "GET", "/v1/webhooks/deliveries?"+query.Encode(), nil, &answer); err != nil {
		return err
	}
	return report(out, answer, func(w io.Writer) error {
		if len(answer.Endpoints) == 0 {
			fmt.Fprintln(w, "no endpoint is configured: --webhooks FILE of the checkpoint role (docs/releases.md)")
		}
		for _, e := range answer.Endpoints {
			types := "everything"
			if len(e.Types) > 0 {
				types = strings.Join(e.Types, ", ")
			}
			fmt.Fprintf(w, "%s  %s  %s\n", e.Name, e.URL, types)
		}
		if len(answer.Deliveries) == 0 {
			return nil
		}
		fmt.Fprintln(w)
		return table(w, func(line func(...any)) {
			line("endpoint", "event", "type", "attempts", "state", "error")
			for _, d := range answer.Deliveries {
				state := "given up"
				switch {
				case d.DeliveredAt != nil:
					state = "delivered " + minute(*d.DeliveredAt)
				case d.NextAt != nil:
					state = "next try " + minute(*d.NextAt)
				}
				line(d.Endpoint, d.Event, d.Type, d.Attempts, state, d.Error)
			}
		})
	})
}

// WebhookRedeliver delivers again.
type WebhookRedeliver struct {
	Endpoint string `arg:"" help:"The endpoint's name."`
	Event    string `arg:"" help:"The event, as webhook deliveries lists it: release/3."`
}

// Run asks.
func (c *WebhookRedeliver) Run(ctx context.Context, out *Output, at *WebhookCommand) error {
	request := checkpoint.Redelivery{Endpoint: c.Endpoint, Event: c.Event}
	if err := at.call(ctx, "POST", "/v1/webhooks/deliveries", request, &request); err != nil {
		return err
	}
	return report(out, request, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "%s goes to %s again within seconds\n", c.Event, c.Endpoint)
		return err
	})
}
