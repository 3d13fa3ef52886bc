package main

import (
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/jackc/pgx/v5/pgxpool"

	"millrace/distill/account"
	"millrace/schemas/ledger"
)

// AccountCommand prints the no-seam table.
type AccountCommand struct {
	Tables `embed:""`
	Policy string `help:"Only turns of this policy version."`
}

// Run implements the command.
func (c *AccountCommand) Run(ctx context.Context, out *Output) error {
	pool, topic, err := c.open(ctx, "account")
	if err != nil {
		return err
	}
	defer pool.Close()
	b, perPartition, err := readAccount(ctx, pool, topic)
	if err != nil {
		return err
	}
	for partition, one := range perPartition {
		if err := one.Check(); err != nil {
			return fmt.Errorf("partition %d does not balance: %w", partition, err)
		}
	}
	if out.JSON {
		return out.Object(accountDocument(b, c.Policy))
	}
	printAccount(out, b, c.Policy)
	return nil
}

// readAccount reads the balances of all partitions and their sum.
func readAccount(ctx context.Context, pool *pgxpool.Pool, topic string) (account.Balance, map[int32]account.Balance, error) {
	sum, each := account.New(), map[int32]account.Balance{}
	fail := func(err error) (account.Balance, map[int32]account.Balance, error) {
		return sum, nil, fmt.Errorf("reading the accounting: %w", err)
	}
	rows, err := pool.Query(ctx, `select partition, committed_offset, turns_opened, turns_open from partition where topic = $1`, topic)
	if err != nil {
		return fail(err)
	}
	for rows.Next() {
		var partition int32
		b := account.New()
		if err := rows.Scan(&partition, &b.Read, &b.Opened, &b.Open); err != nil {
			return fail(err)
		}
		each[partition] = b
	}
	if rows.Err() != nil {
		return fail(rows.Err())
	}
	rows, err = pool.Query(ctx, `select partition, class, records from account_records where topic = $1`, topic)
	if err != nil {
		return fail(err)
	}
	for rows.Next() {
		var partition int32
		var class string
		var n int64
		if err := rows.Scan(&partition, &class, &n); err != nil {
			return fail(err)
		}
		each[partition].Records[account.Class(class)] = n
	}
	if rows.Err() != nil {
		return fail(rows.Err())
	}
	rows, err = pool.Query(ctx, `select partition, policy_version, arm, disposition, turns from account_turns where topic = $1`, topic)
	if err != nil {
		return fail(err)
	}
	for rows.Next() {
		var partition int32
		var k account.Settled
		var n int64
		if err := rows.Scan(&partition, &k.PolicyVersion, &k.Arm, &k.Disposition, &n); err != nil {
			return fail(err)
		}
		each[partition].Settled[k] = n
	}
	if rows.Err() != nil {
		return fail(rows.Err())
	}
	for _, b := range each {
		sum.Add(b)
	}
	return sum, each, nil
}

func accountDocument(b account.Balance, policy string) map[string]any {
	turns := []map[string]any{}
	for k, n := range b.Settled {
		if policy == "" || policy == k.PolicyVersion {
			turns = append(turns, map[string]any{"policy_version": k.PolicyVersion, "arm": k.Arm, "disposition": k.Disposition, "turns": n})
		}
	}
	return map[string]any{
		"balanced": b.Check() == nil, "read": b.Read, "records": b.Records,
		"turns_opened": b.Opened, "turns_settled": b.SettledTurns(), "turns_open": b.OpenTurns(), "settled": turns,
	}
}

func printAccount(out *Output, b account.Balance, policy string) {
	t := tabwriter.NewWriter(out.Out, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "records read\t%d\t\n", b.Read)
	for _, class := range account.Classes {
		fmt.Fprintf(t, "%s\t%d\t\n", class, b.Records[class])
	}
	fmt.Fprintf(t, "\t\t\nturns opened\t%d\t\n", b.Opened)
	versions := map[string]map[ledger.Disposition]int64{}
	for k, n := range b.Settled {
		if policy != "" && policy != k.PolicyVersion {
			continue
		}
		if versions[k.PolicyVersion] == nil {
			versions[k.PolicyVersion] = map[ledger.Disposition]int64{}
		}
		versions[k.PolicyVersion][k.Disposition] += n
	}
	for _, version := range sortedKeys(versions) {
		for _, d := range ledger.Dispositions {
			if n := versions[version][d]; n > 0 {
				fmt.Fprintf(t, "%s %s\t%d\t\n", version, d, n)
			}
		}
	}
	for _, version := range sortedKeys(b.Open) {
		fmt.Fprintf(t, "%s still open\t%d\t\n", version, b.Open[version])
	}
	_ = t.Flush()
	if err := b.Check(); err != nil {
		out.Print("NOT BALANCED: %v", err)
		return
	}
	out.Print("balanced: read = applied + amended + duplicate + orphan + expired + dead-lettered + control; opened = settled + open")
}
