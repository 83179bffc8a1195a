;; The inner loops of boosting. What each function does, and in which order, is said in TypeScript by plain-kernel.ts,
;; which leaves the same bytes in memory; a test holds the two to that.
;;
;; Sums are integers, so their order cannot change them. What is computed with fractions uses addition, subtraction,
;; multiplication and division of IEEE 754 doubles and nothing else; WebAssembly neither fuses nor reorders these, so
;; every processor gives the same bits.
;;
;; All parameters named `…At` are byte addresses. Rebuild with `npm run kernel` after any change.
(module
  (import "kernel" "memory" (memory 1))

  ;; Bins of one column: 0 for NaN, else one more than the number of edges below the value. Each bin is written twice,
  ;; to its row (`stride` bytes apart) and to its column.
  (func (export "assignBins")
    (param $valuesAt i32) (param $count i32) (param $edgesAt i32) (param $edges i32)
    (param $rowBinAt i32) (param $stride i32) (param $columnAt i32)
    (local $value f32) (local $base i32) (local $length i32) (local $half i32) (local $end i32)
    (local.set $end (i32.add (local.get $valuesAt) (i32.shl (local.get $count) (i32.const 2))))
    (block $done
      (loop $row
        (br_if $done (i32.ge_u (local.get $valuesAt) (local.get $end)))
        (local.set $value (f32.load (local.get $valuesAt)))
        (local.set $base (local.get $edgesAt))
        (local.set $length (local.get $edges))
        (block $found
          (loop $search
            (br_if $found (i32.le_u (local.get $length) (i32.const 1)))
            (local.set $half (i32.shr_u (local.get $length) (i32.const 1)))
            (local.set $base
              (select
                (i32.add (local.get $base) (i32.shl (local.get $half) (i32.const 2)))
                (local.get $base)
                (f32.lt
                  (f32.load
                    (i32.sub (i32.add (local.get $base) (i32.shl (local.get $half) (i32.const 2))) (i32.const 4)))
                  (local.get $value))))
            (local.set $length (i32.sub (local.get $length) (local.get $half)))
            (br $search)))
        (local.set $base
          (select
            (i32.add (i32.shr_u (i32.sub (local.get $base) (local.get $edgesAt)) (i32.const 2)) (i32.const 1))
            (i32.const 0)
            (f32.eq (local.get $value) (local.get $value))))
        (i32.store8 (local.get $rowBinAt) (local.get $base))
        (i32.store8 (local.get $columnAt) (local.get $base))
        (local.set $valuesAt (i32.add (local.get $valuesAt) (i32.const 4)))
        (local.set $rowBinAt (i32.add (local.get $rowBinAt) (local.get $stride)))
        (local.set $columnAt (i32.add (local.get $columnAt) (i32.const 1)))
        (br $row))))

  ;; Softmax of scores that stand class after class, `classBytes` apart; two rows at a time.
  (func (export "refreshProbabilities")
    (param $scoresAt i32) (param $probabilitiesAt i32) (param $classBytes i32) (param $classes i32)
    (local $row i32) (local $at i32) (local $k i32) (local $highest v128) (local $sum v128) (local $e v128)
    (local $x v128) (local $t v128) (local $k2 v128) (local $r v128) (local $r2 v128) (local $r4 v128)
    (block $done
      (loop $rows
        (br_if $done (i32.ge_u (local.get $row) (local.get $classBytes)))
        (local.set $highest (v128.load (i32.add (local.get $scoresAt) (local.get $row))))
        (local.set $at (i32.add (local.get $row) (local.get $classBytes)))
        (local.set $k (i32.const 1))
        (loop $class
          (local.set $highest
            (f64x2.pmax (local.get $highest) (v128.load (i32.add (local.get $scoresAt) (local.get $at)))))
          (local.set $at (i32.add (local.get $at) (local.get $classBytes)))
          (local.set $k (i32.add (local.get $k) (i32.const 1)))
          (br_if $class (i32.lt_u (local.get $k) (local.get $classes))))

        (local.set $sum (v128.const f64x2 0 0))
        (local.set $at (local.get $row))
        (local.set $k (i32.const 0))
        (loop $class
          ;; e to the power of x, for x up to 0: x = k ln 2 + r, a polynomial in r, and 2^k as an exponent. It is
          ;; written out here because a call would cost as much as the arithmetic.
          (local.set $x
            (f64x2.pmax
              (f64x2.sub (v128.load (i32.add (local.get $scoresAt) (local.get $at))) (local.get $highest))
              (v128.const f64x2 -700 -700)))
          ;; Adding 1.5 × 2^52 rounds to an integer and leaves it in the lowest bits.
          (local.set $t
            (f64x2.add
              (f64x2.mul (local.get $x) (v128.const f64x2 1.4426950408889634 1.4426950408889634))
              (v128.const f64x2 6755399441055744 6755399441055744)))
          (local.set $k2 (f64x2.sub (local.get $t) (v128.const f64x2 6755399441055744 6755399441055744)))
          (local.set $r
            (f64x2.sub
              (f64x2.sub (local.get $x) (f64x2.mul (local.get $k2) (v128.const f64x2 0.6931471803691238 0.6931471803691238)))
              (f64x2.mul (local.get $k2) (v128.const f64x2 1.9082149292705877e-10 1.9082149292705877e-10))))
          (local.set $r2 (f64x2.mul (local.get $r) (local.get $r)))
          (local.set $r4 (f64x2.mul (local.get $r2) (local.get $r2)))
          (local.set $e
            (f64x2.mul
              (f64x2.add
                (f64x2.add
                (f64x2.add
                  (f64x2.add (v128.const f64x2 1 1) (f64x2.mul (v128.const f64x2 1 1) (local.get $r)))
                  (f64x2.mul
                    (f64x2.add (v128.const f64x2 0.5 0.5) (f64x2.mul (v128.const f64x2 0.16666666666666666 0.16666666666666666) (local.get $r)))
                    (local.get $r2)))
                (f64x2.mul
                (f64x2.add
                  (f64x2.add (v128.const f64x2 0.041666666666666664 0.041666666666666664) (f64x2.mul (v128.const f64x2 0.008333333333333333 0.008333333333333333) (local.get $r)))
                  (f64x2.mul
                    (f64x2.add (v128.const f64x2 0.001388888888888889 0.001388888888888889) (f64x2.mul (v128.const f64x2 0.0001984126984126984 0.0001984126984126984) (local.get $r)))
                    (local.get $r2)))
                (local.get $r4)))
                (f64x2.mul
                (f64x2.add
                  (f64x2.add (v128.const f64x2 0.0000248015873015873 0.0000248015873015873) (f64x2.mul (v128.const f64x2 0.0000027557319223985893 0.0000027557319223985893) (local.get $r)))
                  (f64x2.mul
                    (f64x2.add (v128.const f64x2 2.755731922398589e-7 2.755731922398589e-7) (f64x2.mul (v128.const f64x2 2.505210838544172e-8 2.505210838544172e-8) (local.get $r)))
                    (local.get $r2)))
                (f64x2.mul (local.get $r4) (local.get $r4))))
              (i64x2.add
                (i64x2.shl (local.get $t) (i32.const 52))
                (v128.const i64x2 0x3ff0000000000000 0x3ff0000000000000))))
          (v128.store (i32.add (local.get $probabilitiesAt) (local.get $at)) (local.get $e))
          (local.set $sum (f64x2.add (local.get $sum) (local.get $e)))
          (local.set $at (i32.add (local.get $at) (local.get $classBytes)))
          (local.set $k (i32.add (local.get $k) (i32.const 1)))
          (br_if $class (i32.lt_u (local.get $k) (local.get $classes))))

        (local.set $sum (f64x2.div (v128.const f64x2 1 1) (local.get $sum)))
        (local.set $at (local.get $row))
        (local.set $k (i32.const 0))
        (loop $class
          (v128.store
            (i32.add (local.get $probabilitiesAt) (local.get $at))
            (f64x2.mul (v128.load (i32.add (local.get $probabilitiesAt) (local.get $at))) (local.get $sum)))
          (local.set $at (i32.add (local.get $at) (local.get $classBytes)))
          (local.set $k (i32.add (local.get $k) (i32.const 1)))
          (br_if $class (i32.lt_u (local.get $k) (local.get $classes))))
        (local.set $row (i32.add (local.get $row) (i32.const 16)))
        (br $rows))))

  ;; What each row adds to a bin, 16 bytes: its gradient in whole steps, and its hessian in whole steps above a one in
  ;; the lowest 24 bits, which counts the row.
  (func (export "fillGradients")
    (param $probabilitiesAt i32) (param $labelsAt i32) (param $label i32) (param $count i32)
    (param $gradientSteps f64) (param $hessianSteps f64) (param $gradientsAt i32)
    (local $p f64) (local $end i32)
    (local.set $end (i32.add (local.get $labelsAt) (local.get $count)))
    (block $done
      (loop $row
        (br_if $done (i32.ge_u (local.get $labelsAt) (local.get $end)))
        (local.set $p (f64.load (local.get $probabilitiesAt)))
        (i64.store
          (local.get $gradientsAt)
          (i64.trunc_sat_f64_s
            (f64.nearest
              (f64.mul
                (f64.sub
                  (local.get $p)
                  (f64.convert_i32_u (i32.eq (i32.load8_u (local.get $labelsAt)) (local.get $label))))
                (local.get $gradientSteps)))))
        (i64.store offset=8
          (local.get $gradientsAt)
          (i64.or
            (i64.shl
              (i64.trunc_sat_f64_s
                (f64.nearest
                  (f64.mul
                    (f64.mul (local.get $p) (f64.sub (f64.const 1) (local.get $p)))
                    (local.get $hessianSteps))))
              (i64.const 24))
            (i64.const 1)))
        (local.set $probabilitiesAt (i32.add (local.get $probabilitiesAt) (i32.const 8)))
        (local.set $labelsAt (i32.add (local.get $labelsAt) (i32.const 1)))
        (local.set $gradientsAt (i32.add (local.get $gradientsAt) (i32.const 16)))
        (br $row))))

  ;; The sums per bin over some rows. A feature has 4,160 bytes: 256 bins and a gap, because features exactly 4,096
  ;; bytes apart would fight for the same lines of the cache. Rows are touched in blocks of 64 before they are counted, at
  ;; both ends, because every other one lies across two lines of the cache: so the waits for memory overlap. What touching
  ;; reads is returned, or it would be optimised away.
  (func (export "fillHistogram")
    (param $rowsAt i32) (param $count i32) (param $binsAt i32) (param $stride i32)
    (param $gradientsAt i32) (param $histogramAt i32) (result i32)
    (local $end i32) (local $blockEnd i32) (local $at i32) (local $touched i32) (local $lastBinAt i32)
    (local $row i32) (local $binAt i32) (local $binEnd i32) (local $bins i32) (local $a i32)
    (local $h0 i32) (local $h1 i32) (local $h2 i32) (local $h3 i32)
    (local $v v128)
    (memory.fill
      (local.get $histogramAt) (i32.const 0) (i32.mul (local.get $stride) (i32.const 4160)))
    (local.set $end (i32.add (local.get $rowsAt) (i32.shl (local.get $count) (i32.const 2))))
    (local.set $lastBinAt (i32.sub (i32.add (local.get $binsAt) (local.get $stride)) (i32.const 1)))
    (block $done
      (loop $blocks
        (br_if $done (i32.ge_u (local.get $rowsAt) (local.get $end)))
        (local.set $blockEnd (i32.add (local.get $rowsAt) (i32.const 256)))
        (local.set $blockEnd
          (select (local.get $blockEnd) (local.get $end) (i32.lt_u (local.get $blockEnd) (local.get $end))))
        (local.set $at (local.get $rowsAt))
        (loop $touch
          (local.set $row (i32.load (local.get $at)))
          (local.set $touched
            (i32.add
              (local.get $touched)
              (i32.add
                (i32.add
                  (i32.load8_u (i32.add (local.get $binsAt) (i32.mul (local.get $row) (local.get $stride))))
                  (i32.load8_u (i32.add (local.get $lastBinAt) (i32.mul (local.get $row) (local.get $stride)))))
                (i32.load8_u (i32.add (local.get $gradientsAt) (i32.shl (local.get $row) (i32.const 4)))))))
          (local.set $at (i32.add (local.get $at) (i32.const 4)))
          (br_if $touch (i32.lt_u (local.get $at) (local.get $blockEnd))))
        (loop $rows
          (local.set $row (i32.load (local.get $rowsAt)))
          (local.set $v (v128.load (i32.add (local.get $gradientsAt) (i32.shl (local.get $row) (i32.const 4)))))
          (local.set $binAt (i32.add (local.get $binsAt) (i32.mul (local.get $row) (local.get $stride))))
          (local.set $binEnd (i32.add (local.get $binAt) (local.get $stride)))
          (local.set $h0 (local.get $histogramAt))
          (local.set $h1 (i32.add (local.get $h0) (i32.const 4160)))
          (local.set $h2 (i32.add (local.get $h1) (i32.const 4160)))
          (local.set $h3 (i32.add (local.get $h2) (i32.const 4160)))
          (loop $four
            (local.set $bins (i32.load (local.get $binAt)))
            (local.set $a (i32.add (local.get $h0) (i32.shl (i32.and (local.get $bins) (i32.const 255)) (i32.const 4))))
            (v128.store (local.get $a) (i64x2.add (v128.load (local.get $a)) (local.get $v)))
            (local.set $a (i32.add (local.get $h1) (i32.shl (i32.and (i32.shr_u (local.get $bins) (i32.const 8)) (i32.const 255)) (i32.const 4))))
            (v128.store (local.get $a) (i64x2.add (v128.load (local.get $a)) (local.get $v)))
            (local.set $a (i32.add (local.get $h2) (i32.shl (i32.and (i32.shr_u (local.get $bins) (i32.const 16)) (i32.const 255)) (i32.const 4))))
            (v128.store (local.get $a) (i64x2.add (v128.load (local.get $a)) (local.get $v)))
            (local.set $a (i32.add (local.get $h3) (i32.shl (i32.shr_u (local.get $bins) (i32.const 24)) (i32.const 4))))
            (v128.store (local.get $a) (i64x2.add (v128.load (local.get $a)) (local.get $v)))
            (local.set $h0 (i32.add (local.get $h0) (i32.const 16640)))
            (local.set $h1 (i32.add (local.get $h1) (i32.const 16640)))
            (local.set $h2 (i32.add (local.get $h2) (i32.const 16640)))
            (local.set $h3 (i32.add (local.get $h3) (i32.const 16640)))
            (local.set $binAt (i32.add (local.get $binAt) (i32.const 4)))
            (br_if $four (i32.lt_u (local.get $binAt) (local.get $binEnd))))
          (local.set $rowsAt (i32.add (local.get $rowsAt) (i32.const 4)))
          (br_if $rows (i32.lt_u (local.get $rowsAt) (local.get $blockEnd))))
        (br $blocks)))
    (local.get $touched))

  ;; Takes one histogram away from another: what is left is the sibling.
  (func (export "subtractHistogram") (param $fromAt i32) (param $otherAt i32) (param $bytes i32)
    (local $end i32)
    (local.set $end (i32.add (local.get $fromAt) (local.get $bytes)))
    (loop $bins
      (v128.store
        (local.get $fromAt) (i64x2.sub (v128.load (local.get $fromAt)) (v128.load (local.get $otherAt))))
      (v128.store offset=16
        (local.get $fromAt)
        (i64x2.sub (v128.load offset=16 (local.get $fromAt)) (v128.load offset=16 (local.get $otherAt))))
      (local.set $fromAt (i32.add (local.get $fromAt) (i32.const 32)))
      (local.set $otherAt (i32.add (local.get $otherAt) (i32.const 32)))
      (br_if $bins (i32.lt_u (local.get $fromAt) (local.get $end)))))

  ;; The best split of a leaf. `splitAt` names 64 bytes: the sums of the leaf (16, read), the gain as a fraction
  ;; (numerator and denominator), the sums of the left side (16), feature (−1: none), cut, side of the missing values.
  ;; Gains are compared as fractions: a multiplication is cheaper than a division.
  (func (export "findSplit")
    (param $histogramAt i32) (param $featuresAt i32) (param $featureCount i32) (param $binCountsAt i32)
    (param $splitAt i32) (param $l2 f64) (param $leastHessian f64) (param $leastRows i32)
    (local $featuresEnd i32) (local $feature i32) (local $binsAt i32) (local $binAt i32) (local $binEnd i32)
    (local $missingLeft i32) (local $hasMissing i32) (local $rows i32) (local $leftRows i32)
    (local $sums v128) (local $packed i64)
    (local $gradient f64) (local $hessian f64)
    (local $gl f64) (local $gr f64) (local $dl f64) (local $dr f64) (local $hl f64) (local $hr f64)
    (local $top f64) (local $bottom f64) (local $bestTop f64) (local $bestBottom f64)
    (local.set $gradient (f64.convert_i64_s (i64.load (local.get $splitAt))))
    (local.set $packed (i64.load offset=8 (local.get $splitAt)))
    (local.set $hessian (f64.convert_i64_u (i64.shr_u (local.get $packed) (i64.const 24))))
    (local.set $rows (i32.and (i32.wrap_i64 (local.get $packed)) (i32.const 0xffffff)))
    (local.set $bestTop (f64.mul (local.get $gradient) (local.get $gradient)))
    (local.set $bestBottom (f64.add (local.get $hessian) (local.get $l2)))
    (i32.store offset=48 (local.get $splitAt) (i32.const -1))
    (local.set $featuresEnd
      (i32.add (local.get $featuresAt) (i32.shl (local.get $featureCount) (i32.const 2))))
    (block $done
      (loop $features
        (br_if $done (i32.ge_u (local.get $featuresAt) (local.get $featuresEnd)))
        (local.set $feature (i32.load (local.get $featuresAt)))
        (local.set $binsAt
          (i32.add (local.get $histogramAt) (i32.mul (local.get $feature) (i32.const 4160))))
        (local.set $binEnd
          (i32.add
            (local.get $binsAt)
            (i32.shl
              (i32.add
                (i32.load (i32.add (local.get $binCountsAt) (i32.shl (local.get $feature) (i32.const 2))))
                (i32.const 1))
              (i32.const 4))))
        (local.set $hasMissing (i64.ne (i64.load offset=8 (local.get $binsAt)) (i64.const 0)))
        (local.set $missingLeft (i32.const 0))
        (local.set $sums (v128.const i64x2 0 0))
        (loop $side
          (local.set $binAt (i32.add (local.get $binsAt) (i32.const 16)))
          (block $sideDone
            (loop $cuts
              (br_if $sideDone (i32.ge_u (local.get $binAt) (local.get $binEnd)))
              (local.set $sums (i64x2.add (local.get $sums) (v128.load (local.get $binAt))))
              (local.set $binAt (i32.add (local.get $binAt) (i32.const 16)))
              (local.set $packed (i64x2.extract_lane 1 (local.get $sums)))
              (local.set $leftRows (i32.and (i32.wrap_i64 (local.get $packed)) (i32.const 0xffffff)))
              (br_if $cuts (i32.lt_u (local.get $leftRows) (local.get $leastRows)))
              (br_if $sideDone
                (i32.lt_s (i32.sub (local.get $rows) (local.get $leftRows)) (local.get $leastRows)))
              (local.set $hl (f64.convert_i64_u (i64.shr_u (local.get $packed) (i64.const 24))))
              (br_if $cuts (f64.lt (local.get $hl) (local.get $leastHessian)))
              (local.set $hr (f64.sub (local.get $hessian) (local.get $hl)))
              (br_if $sideDone (f64.lt (local.get $hr) (local.get $leastHessian)))
              (local.set $gl (f64.convert_i64_s (i64x2.extract_lane 0 (local.get $sums))))
              (local.set $gr (f64.sub (local.get $gradient) (local.get $gl)))
              (local.set $dl (f64.add (local.get $hl) (local.get $l2)))
              (local.set $dr (f64.add (local.get $hr) (local.get $l2)))
              (local.set $top
                (f64.add
                  (f64.mul (f64.mul (local.get $gl) (local.get $gl)) (local.get $dr))
                  (f64.mul (f64.mul (local.get $gr) (local.get $gr)) (local.get $dl))))
              (local.set $bottom (f64.mul (local.get $dl) (local.get $dr)))
              (br_if $cuts
                (f64.le
                  (f64.mul (local.get $top) (local.get $bestBottom))
                  (f64.mul (local.get $bestTop) (local.get $bottom))))
              (local.set $bestTop (local.get $top))
              (local.set $bestBottom (local.get $bottom))
              (v128.store offset=32 (local.get $splitAt) (local.get $sums))
              (i32.store offset=48 (local.get $splitAt) (local.get $feature))
              (i32.store offset=52
                (local.get $splitAt)
                (i32.sub
                  (i32.shr_u (i32.sub (local.get $binAt) (local.get $binsAt)) (i32.const 4))
                  (i32.const 1)))
              ;; Where no row was missing, a missing value later follows the many.
              (i32.store offset=56
                (local.get $splitAt)
                (select
                  (local.get $missingLeft)
                  (i32.gt_u (i32.shl (local.get $leftRows) (i32.const 1)) (local.get $rows))
                  (local.get $hasMissing)))
              (br $cuts)))
          (if (i32.and (local.get $hasMissing) (i32.eqz (local.get $missingLeft)))
            (then
              (local.set $missingLeft (i32.const 1))
              (local.set $sums (v128.load (local.get $binsAt)))
              (br $side))))
        (local.set $featuresAt (i32.add (local.get $featuresAt) (i32.const 4)))
        (br $features)))
    (f64.store offset=16 (local.get $splitAt) (local.get $bestTop))
    (f64.store offset=24 (local.get $splitAt) (local.get $bestBottom)))

  ;; Moves the rows whose bin, less `offset`, is at most `limit` before the others; both keep their order. Each row is
  ;; written to both places and one of the two writes stands, so that there is no branch to mispredict. Returns how
  ;; many went left.
  (func (export "partitionRows")
    (param $rowsAt i32) (param $count i32) (param $spareAt i32) (param $columnAt i32)
    (param $offset i32) (param $limit i32) (result i32)
    (local $end i32) (local $leftAt i32) (local $rightAt i32) (local $row i32) (local $left i32)
    (local.set $end (i32.add (local.get $rowsAt) (i32.shl (local.get $count) (i32.const 2))))
    (local.set $leftAt (local.get $rowsAt))
    (local.set $rightAt (local.get $spareAt))
    (block $done
      (loop $next
        (br_if $done (i32.ge_u (local.get $rowsAt) (local.get $end)))
        (local.set $row (i32.load (local.get $rowsAt)))
        (local.set $left
          (i32.le_u
            (i32.sub (i32.load8_u (i32.add (local.get $columnAt) (local.get $row))) (local.get $offset))
            (local.get $limit)))
        (i32.store (local.get $leftAt) (local.get $row))
        (i32.store (local.get $rightAt) (local.get $row))
        (local.set $leftAt (i32.add (local.get $leftAt) (i32.shl (local.get $left) (i32.const 2))))
        (local.set $rightAt
          (i32.add (local.get $rightAt) (i32.shl (i32.xor (local.get $left) (i32.const 1)) (i32.const 2))))
        (local.set $rowsAt (i32.add (local.get $rowsAt) (i32.const 4)))
        (br $next)))
    (memory.copy
      (local.get $leftAt) (local.get $spareAt) (i32.sub (local.get $rightAt) (local.get $spareAt)))
    (i32.sub
      (local.get $count)
      (i32.shr_u (i32.sub (local.get $rightAt) (local.get $spareAt)) (i32.const 2))))

  ;; Adds the value of a leaf to the scores of its rows.
  (func (export "addToScores") (param $rowsAt i32) (param $count i32) (param $scoresAt i32) (param $value f64)
    (local $end i32) (local $at i32)
    (local.set $end (i32.add (local.get $rowsAt) (i32.shl (local.get $count) (i32.const 2))))
    (block $done
      (loop $next
        (br_if $done (i32.ge_u (local.get $rowsAt) (local.get $end)))
        (local.set $at
          (i32.add (local.get $scoresAt) (i32.shl (i32.load (local.get $rowsAt)) (i32.const 3))))
        (f64.store (local.get $at) (f64.add (f64.load (local.get $at)) (local.get $value)))
        (local.set $rowsAt (i32.add (local.get $rowsAt) (i32.const 4)))
        (br $next))))
)
