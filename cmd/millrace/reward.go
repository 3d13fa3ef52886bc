package main

// RewardCommand changes the reward, and shows what is in force.
type RewardCommand struct {
	Show     RewardShow     `cmd:"" help:"Print the shipped spec or scenarios, or their JSON Schemas for your editor."`
	Lint     RewardLint     `cmd:"" help:"Look for what a policy could use in a spec, and for what its author didn't mean."`
	Test     RewardTest     `cmd:"" help:"Act out pairs of behaviours under a spec: does the better one earn more?"`
	Stress   RewardStress   `cmd:"" help:"Let a policy climb a spec: where does it end?"`
	Replay   RewardReplay   `cmd:"" help:"Score the ledger under another spec: what changes?"`
	Baseline RewardBaseline `cmd:"" help:"The baseline that the ledger gives under a spec."`
	Adopt    RewardAdopt    `cmd:"" help:"Put a spec in force, with the baseline that the last interval gives."`
	Status   RewardStatus   `cmd:"" help:"The spec, baseline and judge in force."`
	History  RewardHistory  `cmd:"" help:"What was in force since when, and why."`
}
