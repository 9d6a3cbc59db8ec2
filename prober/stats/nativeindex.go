package stats

import "math"

// cellBits says how many cells of an indexer's table share a bucket on average,
// four: a value is then one or two comparisons away from its bucket.
const cellBits = 2

// indexer finds the buckets of values, ceil(log2(v) * 2^schema), without a
// logarithm for each: the leading bits of the fraction lead to the first bound that
// can be it.
type indexer struct {
	schema int32
	bounds [1<<MaxSchema + 1]float64 // upper bounds within [0.5, 1]
	first  [1 << (MaxSchema + cellBits)]uint16
}

// init makes the tables of a schema; those of 0 and below need none.
func (x *indexer) init(schema int32) {
	x.schema = schema
	if schema <= 0 {
		return
	}
	n := 1 << schema
	for j := range n + 1 {
		x.bounds[j] = math.Exp2(float64(j)/float64(n) - 1)
	}
	cells := n << cellBits
	j := 0
	for c := range cells {
		for x.bounds[j] < 0.5+0.5*float64(c)/float64(cells) {
			j++
		}
		x.first[c] = uint16(j)
	}
}

// index is the bucket of a positive, normal value.
func (x *indexer) index(v float64) int {
	// v is frac * 2^exp with frac in [0.5, 1), as math.Frexp has it.
	const fractionBits, exponentOfHalf = 52, 1022
	bits := math.Float64bits(v)
	exp := int(bits>>fractionBits) - exponentOfHalf
	fraction := bits & (1<<fractionBits - 1)
	if x.schema <= 0 {
		if fraction == 0 { // a power of two is the upper, included bound of its bucket
			exp--
		}
		return (exp + 1<<-x.schema - 1) >> -x.schema
	}
	frac := math.Float64frombits(fraction | exponentOfHalf<<fractionBits)
	j := int(x.first[fraction>>(fractionBits-uint(x.schema)-cellBits)])
	for x.bounds[j] < frac {
		j++
	}
	return (exp-1)<<x.schema + j
}
