package strict

import "fmt"

// DidYouMean returns `; did you mean "x"?` for the candidate that is closest
// to word, and "" where none is close. Validation uses it for names.
func DidYouMean(word string, candidates []string) string {
	best, bestDist := "", 0
	for _, c := range candidates {
		d := distance(word, c)
		if d <= max(1, min(3, len(c)/3)) && (best == "" || d < bestDist) {
			best, bestDist = c, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// distance is the number of characters to insert, delete, replace or swap with
// their neighbour to make b of a (optimal string alignment). Long words are
// not compared: the time is the product of the lengths.
func distance(a, b string) int {
	const longest = 64
	x, y := []rune(a), []rune(b)
	if len(x) > longest || len(y) > longest {
		return longest
	}
	rows := make([][]int, len(x)+1)
	for i := range rows {
		rows[i] = make([]int, len(y)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(x); i++ {
		for j := 1; j <= len(y); j++ {
			cost := 1
			if x[i-1] == y[j-1] {
				cost = 0
			}
			d := min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				d = min(d, rows[i-2][j-2]+1)
			}
			rows[i][j] = d
		}
	}
	return rows[len(x)][len(y)]
}
