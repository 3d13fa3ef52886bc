package rewardspec

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"millrace/schemas/ledger"
)

// Expression is a CEL expression over signals and the constants of the turn's stratum. Everything in it is a double
// (whole numbers may be written without a point) or a bool; it has no strings, lists, macros or clock, and can't fail.
type Expression struct {
	Source  string
	Signals []string // that it refers to, anywhere in it, in the order of ledger.Signals: if one is null, so is the value
	// Compared are those of Signals that stand under a comparison: where one is null no branch counts, not even the
	// one that doesn't hold.
	Compared []string
	program  cel.Program
}

// StratumConstants are what an expression may read besides signals: the frozen numbers of the turn's stratum.
var StratumConstants = []string{"stratum.wall_s_p95", "stratum.x_ref", "stratum.chars_p10"}

const maxExpressionLength = 2000 // bytes

var comparisons = []string{
	operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals, operators.Equals, operators.NotEquals,
}

var functions = append([]string{
	operators.Add, operators.Subtract, operators.Multiply, operators.Divide, operators.Negate,
	operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot, operators.Conditional,
	"min", "max",
}, comparisons...)

// ParseExpression compiles an expression; its errors say what is wrong and what there is instead.
func ParseExpression(source string) (*Expression, error) {
	if len(source) > maxExpressionLength {
		return nil, fmt.Errorf("the expression has %d bytes; at most %d", len(source), maxExpressionLength)
	}
	env, err := environment()
	if err != nil {
		return nil, err
	}
	parsed, issues := env.Parse(source)
	if issues.Err() != nil {
		return nil, errors.New(firstIssue(issues))
	}
	names, compared, err := simplify(parsed.NativeRep().Expr())
	if err != nil {
		return nil, err
	}
	checked, issues := env.Check(parsed)
	if issues.Err() != nil {
		return nil, errors.New(firstIssue(issues))
	}
	if checked.OutputType() != cel.DoubleType {
		return nil, fmt.Errorf("the value is a %s; it must be a number", checked.OutputType())
	}
	program, err := env.Program(checked, cel.EvalOptions(cel.OptOptimize))
	if err != nil {
		return nil, err
	}
	e := &Expression{Source: source, program: program}
	for _, d := range ledger.Signals {
		if names[d.Name] {
			e.Signals = append(e.Signals, d.Name)
		}
		if compared[d.Name] {
			e.Compared = append(e.Compared, d.Name)
		}
	}
	return e, nil
}

// Value computes the expression; value gives each signal and stratum constant that it refers to.
// It is null if the result is not a finite number (a division by zero).
func (e *Expression) Value(value func(name string) float64) ledger.Value {
	out, _, err := e.program.Eval(activation(value))
	if err != nil {
		return ledger.Value{}
	}
	v, ok := out.Value().(float64)
	if !ok || math.IsNaN(v) || math.IsInf(v, 0) {
		return ledger.Value{}
	}
	return ledger.Of(v)
}

// Reads says whether the expression refers to a signal whose name begins with the prefix.
func (e *Expression) Reads(prefix string) bool {
	return slices.ContainsFunc(e.Signals, func(s string) bool { return strings.HasPrefix(s, prefix) })
}

type activation func(string) float64

func (a activation) ResolveName(name string) (any, bool) { return a(name), true }
func (a activation) Parent() cel.Activation              { return nil }

var environment = sync.OnceValues(func() (*cel.Env, error) {
	options := []cel.EnvOption{cel.StdLib(), cel.ClearMacros(), binary("min", math.Min), binary("max", math.Max)}
	for _, d := range ledger.Signals {
		options = append(options, cel.Variable(d.Name, cel.DoubleType))
	}
	for _, name := range StratumConstants {
		options = append(options, cel.Variable(name, cel.DoubleType))
	}
	return cel.NewCustomEnv(options...)
})

func binary(name string, f func(x, y float64) float64) cel.EnvOption {
	return cel.Function(name, cel.Overload(name+"_double_double", []*cel.Type{cel.DoubleType, cel.DoubleType}, cel.DoubleType,
		cel.BinaryBinding(func(l, r ref.Val) ref.Val {
			return types.Double(f(float64(l.(types.Double)), float64(r.(types.Double))))
		})))
}

// simplify checks that the tree holds nothing but arithmetic over known names, and turns whole numbers into doubles,
// since CEL itself has no mixed arithmetic. It returns the names that the tree refers to, and those under comparisons.
func simplify(e ast.Expr) (names, compared map[string]bool, err error) {
	names, compared = map[string]bool{}, map[string]bool{}
	factory := ast.NewExprFactory()
	var walk func(e ast.Expr, comparison bool) error
	walk = func(e ast.Expr, comparison bool) error {
		switch e.Kind() {
		case ast.LiteralKind:
			switch v := e.AsLiteral().(type) {
			case types.Double, types.Bool:
			case types.Int:
				e.SetKindCase(factory.NewLiteral(e.ID(), types.Double(v)))
			default:
				return fmt.Errorf("a %s has no place here; use numbers", v.Type().TypeName())
			}
			return nil
		case ast.IdentKind, ast.SelectKind:
			name, ok := qualifiedName(e)
			if !ok {
				return errors.New("a signal is written group.name, for instance edits.retention")
			}
			names[name] = true
			if comparison {
				compared[name] = true
			}
			return known(name)
		case ast.CallKind:
			call := e.AsCall()
			if call.IsMemberFunction() || !slices.Contains(functions, call.FunctionName()) {
				return fmt.Errorf("unknown function %q; there are min, max and the operators + - * / < <= > >= == != && || ! ?: of CEL", call.FunctionName())
			}
			for _, arg := range call.Args() {
				if err := walk(arg, comparison || slices.Contains(comparisons, call.FunctionName())); err != nil {
					return err
				}
			}
			return nil
		}
		return errors.New("only numbers, signals, operators, min and max have a place here")
	}
	return names, compared, walk(e, false)
}

func qualifiedName(e ast.Expr) (string, bool) {
	if e.Kind() == ast.IdentKind {
		return strings.TrimPrefix(e.AsIdent(), "."), true
	}
	if e.Kind() != ast.SelectKind || e.AsSelect().IsTestOnly() {
		return "", false
	}
	head, ok := qualifiedName(e.AsSelect().Operand())
	return head + "." + e.AsSelect().FieldName(), ok
}

// firstIssue is CEL's first complaint without its drawing of the source.
func firstIssue(issues *cel.Issues) string {
	e := issues.Errors()[0]
	return fmt.Sprintf("column %d: %s", e.Location.Column()+1, e.Message)
}
