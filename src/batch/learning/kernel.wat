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

  ;; Softmax of scores that stand class after class, `classBytes` apart; the probabilities are floats and stand half as far
  ;; apart. Four rows at a time.
  (func (export "refreshProbabilities")
    (param $scoresAt i32) (param $probabilitiesAt i32) (param $classBytes i32) (param $classes i32)
    (local $row i32) (local $at i32) (local $to i32) (local $k i32) (local $high v128) (local $higher v128)
    (local $sum v128) (local $e v128) (local $x v128) (local $t v128) (local $r v128) (local $r2 v128)
    (block $done
      (loop $rows
        (br_if $done (i32.ge_u (local.get $row) (local.get $classBytes)))
        (local.set $at (i32.add (local.get $scoresAt) (local.get $row)))
        (local.set $high (v128.load (local.get $at)))
        (local.set $higher (v128.load offset=16 (local.get $at)))
        (local.set $k (i32.const 1))
        (loop $class
          (local.set $at (i32.add (local.get $at) (local.get $classBytes)))
          (local.set $high (f64x2.pmax (local.get $high) (v128.load (local.get $at))))
          (local.set $higher (f64x2.pmax (local.get $higher) (v128.load offset=16 (local.get $at))))
          (local.set $k (i32.add (local.get $k) (i32.const 1)))
          (br_if $class (i32.lt_u (local.get $k) (local.get $classes))))

        (local.set $sum (v128.const f32x4 0 0 0 0))
        (local.set $at (i32.add (local.get $scoresAt) (local.get $row)))
        (local.set $to (i32.add (local.get $probabilitiesAt) (i32.shr_u (local.get $row) (i32.const 1))))
        (local.set $k (i32.const 0))
        (loop $class
          ;; e to the power of x, for x up to 0: x = k ln 2 + r, a polynomial in r, and 2^k as an exponent. It is
          ;; written out here because a call would cost as much as the arithmetic.
          (local.set $x
            (f32x4.pmax
              (i8x16.shuffle 0 1 2 3 4 5 6 7 16 17 18 19 20 21 22 23
                (f32x4.demote_f64x2_zero (f64x2.sub (v128.load (local.get $at)) (local.get $high)))
                (f32x4.demote_f64x2_zero (f64x2.sub (v128.load offset=16 (local.get $at)) (local.get $higher))))
              (v128.const f32x4 -87 -87 -87 -87)))
          ;; Adding 1.5 × 2^23 rounds to an integer and leaves it in the lowest bits.
          (local.set $t
            (f32x4.add
              (f32x4.mul (local.get $x) (v128.const f32x4 1.4426950216293335 1.4426950216293335 1.4426950216293335 1.4426950216293335))
              (v128.const f32x4 12582912 12582912 12582912 12582912)))
          (local.set $r (f32x4.sub (local.get $t) (v128.const f32x4 12582912 12582912 12582912 12582912)))
          (local.set $r
            (f32x4.sub
              (f32x4.sub (local.get $x) (f32x4.mul (local.get $r) (v128.const f32x4 0.693359375 0.693359375 0.693359375 0.693359375)))
              (f32x4.mul (local.get $r) (v128.const f32x4 -0.00021219444170128554 -0.00021219444170128554 -0.00021219444170128554 -0.00021219444170128554))))
          (local.set $r2 (f32x4.mul (local.get $r) (local.get $r)))
          (local.set $e
            (f32x4.mul
              (f32x4.add
                (f32x4.add
                  (f32x4.add (v128.const f32x4 1 1 1 1) (local.get $r))
                  (f32x4.mul
                    (f32x4.add
                      (v128.const f32x4 0.5 0.5 0.5 0.5)
                      (f32x4.mul (v128.const f32x4 0.1666666716337204 0.1666666716337204 0.1666666716337204 0.1666666716337204) (local.get $r)))
                    (local.get $r2)))
                (f32x4.mul
                  (f32x4.add
                    (f32x4.add
                      (v128.const f32x4 0.0416666679084301 0.0416666679084301 0.0416666679084301 0.0416666679084301)
                      (f32x4.mul (v128.const f32x4 0.008333333767950535 0.008333333767950535 0.008333333767950535 0.008333333767950535) (local.get $r)))
                    (f32x4.mul (v128.const f32x4 0.0013888889225199819 0.0013888889225199819 0.0013888889225199819 0.0013888889225199819) (local.get $r2)))
                  (f32x4.mul (local.get $r2) (local.get $r2))))
              (i32x4.add
                (i32x4.shl (local.get $t) (i32.const 23))
                (v128.const i32x4 0x3f800000 0x3f800000 0x3f800000 0x3f800000))))
          (v128.store (local.get $to) (local.get $e))
          (local.set $sum (f32x4.add (local.get $sum) (local.get $e)))
          (local.set $at (i32.add (local.get $at) (local.get $classBytes)))
          (local.set $to (i32.add (local.get $to) (i32.shr_u (local.get $classBytes) (i32.const 1))))
          (local.set $k (i32.add (local.get $k) (i32.const 1)))
          (br_if $class (i32.lt_u (local.get $k) (local.get $classes))))

        (local.set $sum (f32x4.div (v128.const f32x4 1 1 1 1) (local.get $sum)))
        (local.set $to (i32.add (local.get $probabilitiesAt) (i32.shr_u (local.get $row) (i32.const 1))))
        (local.set $k (i32.const 0))
        (loop $class
          (v128.store (local.get $to) (f32x4.mul (v128.load (local.get $to)) (local.get $sum)))
          (local.set $to (i32.add (local.get $to) (i32.shr_u (local.get $classBytes) (i32.const 1))))
          (local.set $k (i32.add (local.get $k) (i32.const 1)))
          (br_if $class (i32.lt_u (local.get $k) (local.get $classes))))
        (local.set $row (i32.add (local.get $row) (i32.const 32)))
        (br $rows))))

  ;; Writes 0, 1, 2, … four at a time; the last four are written whole.
  (func (export "numberRows") (param $rowsAt i32) (param $count i32)
    (local $four v128) (local $end i32)
    (local.set $four (v128.const i32x4 0 1 2 3))
    (local.set $end (i32.add (local.get $rowsAt) (i32.shl (local.get $count) (i32.const 2))))
    (block $done
      (loop $rows
        (br_if $done (i32.ge_u (local.get $rowsAt) (local.get $end)))
        (v128.store (local.get $rowsAt) (local.get $four))
        (local.set $four (i32x4.add (local.get $four) (v128.const i32x4 4 4 4 4)))
        (local.set $rowsAt (i32.add (local.get $rowsAt) (i32.const 16)))
        (br $rows))))

  ;; What each row adds to a bin, 64 bits: a one that counts the row in the lowest 12, above it the hessian in steps of
  ;; 2^-13 (23 bits), above that the gradient in steps of 2^-16, made positive by adding one whole (29 bits). So many rows as
  ;; 12 bits can count overflow none of the three. Four rows at a time; the last four are filled whole.
  (func (export "fillGradients")
    (param $probabilitiesAt i32) (param $labelsAt i32) (param $label i32) (param $count i32) (param $gradientsAt i32)
    (local $p v128) (local $low v128) (local $high v128) (local $own v128) (local $end i32)
    (local.set $end (i32.add (local.get $labelsAt) (local.get $count)))
    (local.set $own (i8x16.splat (local.get $label)))
    (block $done
      (loop $rows
        (br_if $done (i32.ge_u (local.get $labelsAt) (local.get $end)))
        (local.set $p (v128.load (local.get $probabilitiesAt)))
        ;; Adding 2^23 rounds to an integer and leaves it in the lowest bits; what is above them is shifted out here.
        (local.set $low
          (v128.or
            (i32x4.shl
              (f32x4.add
                (f32x4.mul
                  (f32x4.mul (local.get $p) (f32x4.sub (v128.const f32x4 1 1 1 1) (local.get $p)))
                  (v128.const f32x4 8192 8192 8192 8192))
                (v128.const f32x4 8388608 8388608 8388608 8388608))
              (i32.const 12))
            (v128.const i32x4 1 1 1 1)))
        ;; Of the class that happened, the whole that was added is taken away again.
        (local.set $high
          (i32x4.shl
            (i32x4.add
              (i32x4.sub
                (f32x4.add
                  (f32x4.mul (local.get $p) (v128.const f32x4 65536 65536 65536 65536))
                  (v128.const f32x4 8454144 8454144 8454144 8454144))
                (v128.const f32x4 8388608 8388608 8388608 8388608))
              (i32x4.shl
                (i32x4.extend_low_i16x8_s
                  (i16x8.extend_low_i8x16_s
                    (i8x16.eq (v128.load32_zero (local.get $labelsAt)) (local.get $own))))
                (i32.const 16)))
            (i32.const 3)))
        (v128.store
          (local.get $gradientsAt)
          (i8x16.shuffle 0 1 2 3 16 17 18 19 4 5 6 7 20 21 22 23 (local.get $low) (local.get $high)))
        (v128.store offset=16
          (local.get $gradientsAt)
          (i8x16.shuffle 8 9 10 11 24 25 26 27 12 13 14 15 28 29 30 31 (local.get $low) (local.get $high)))
        (local.set $probabilitiesAt (i32.add (local.get $probabilitiesAt) (i32.const 16)))
        (local.set $labelsAt (i32.add (local.get $labelsAt) (i32.const 4)))
        (local.set $gradientsAt (i32.add (local.get $gradientsAt) (i32.const 32)))
        (br $rows))))

  ;; The sums per bin over some rows, which ascend. A feature has 4,160 bytes: 256 bins of 16 and a gap, because features
  ;; exactly 4,096 bytes apart would fight for the same lines of the cache. All of them would not fit into the nearest cache,
  ;; so eight features are counted at a time in a panel that does, 8 bytes a bin, over a block of rows that overflows no
  ;; bin; then the panel is added to the sums. The panel stands at the beginning of the memory, so that its addresses are
  ;; constants. Blocks of rows that lie apart are brought together first, at `blockAt`.
  (func (export "fillHistogram")
    (param $rowsAt i32) (param $count i32) (param $binsAt i32) (param $stride i32)
    (param $gradientsAt i32) (param $histogramAt i32) (param $blockAt i32)
    (local $end i32) (local $blockEnd i32) (local $row i32) (local $rows i32) (local $feature i32)
    (local $binAt i32) (local $gradientAt i32) (local $gradientEnd i32)
    (memory.fill
      (local.get $histogramAt) (i32.const 0) (i32.mul (local.get $stride) (i32.const 4160)))
    (local.set $end (i32.add (local.get $rowsAt) (i32.shl (local.get $count) (i32.const 2))))
    (block $done
      (loop $blocks
        (br_if $done (i32.ge_u (local.get $rowsAt) (local.get $end)))
        (local.set $blockEnd (i32.add (local.get $rowsAt) (i32.const 16380)))
        (local.set $blockEnd
          (select (local.get $blockEnd) (local.get $end) (i32.lt_u (local.get $blockEnd) (local.get $end))))
        (local.set $rows (i32.shr_u (i32.sub (local.get $blockEnd) (local.get $rowsAt)) (i32.const 2)))
        (local.set $row (i32.load (local.get $rowsAt)))
        (if
          (i32.eq
            (i32.sub (i32.load (i32.sub (local.get $blockEnd) (i32.const 4))) (local.get $row))
            (i32.sub (local.get $rows) (i32.const 1)))
          (then
            (local.set $gradientAt (i32.add (local.get $gradientsAt) (i32.shl (local.get $row) (i32.const 3))))
            (local.set $binAt (i32.add (local.get $binsAt) (i32.mul (local.get $row) (local.get $stride)))))
          (else
            (local.set $gradientAt (local.get $blockAt))
            (local.set $binAt (i32.add (local.get $blockAt) (i32.const 32768)))
            (call $gather
              (local.get $rowsAt) (local.get $blockEnd) (local.get $binsAt) (local.get $stride)
              (local.get $gradientsAt) (local.get $binAt) (local.get $gradientAt))))
        (local.set $gradientEnd (i32.add (local.get $gradientAt) (i32.shl (local.get $rows) (i32.const 3))))
        (local.set $feature (i32.const 0))
        (loop $panels
          (if (i32.ge_u (i32.sub (local.get $stride) (local.get $feature)) (i32.const 8))
            (then
              (call $countEight
                (i32.add (local.get $binAt) (local.get $feature)) (local.get $stride)
                (local.get $gradientAt) (local.get $gradientEnd)))
            (else
              (call $countFour
                (i32.add (local.get $binAt) (local.get $feature)) (local.get $stride)
                (local.get $gradientAt) (local.get $gradientEnd))))
          (call $addPanel
            (i32.add (local.get $histogramAt) (i32.mul (local.get $feature) (i32.const 4160)))
            (select
              (i32.const 16896) (i32.const 8448)
              (i32.ge_u (i32.sub (local.get $stride) (local.get $feature)) (i32.const 8))))
          (local.set $feature (i32.add (local.get $feature) (i32.const 8)))
          (br_if $panels (i32.lt_u (local.get $feature) (local.get $stride))))
        (local.set $rowsAt (local.get $blockEnd))
        (br $blocks))))

  ;; Copies bins and gradients of rows that lie apart. The bins of a row are copied 16 at a time; what is too much stands
  ;; where the next row will.
  (func $gather
    (param $rowsAt i32) (param $end i32) (param $binsAt i32) (param $stride i32)
    (param $gradientsAt i32) (param $toBins i32) (param $toGradients i32)
    (local $row i32) (local $from i32) (local $at i32)
    (loop $rows
      (local.set $row (i32.load (local.get $rowsAt)))
      (i64.store
        (local.get $toGradients)
        (i64.load (i32.add (local.get $gradientsAt) (i32.shl (local.get $row) (i32.const 3)))))
      (local.set $from (i32.add (local.get $binsAt) (i32.mul (local.get $row) (local.get $stride))))
      (local.set $at (i32.const 0))
      (loop $copy
        (v128.store
          (i32.add (local.get $toBins) (local.get $at)) (v128.load (i32.add (local.get $from) (local.get $at))))
        (local.set $at (i32.add (local.get $at) (i32.const 16)))
        (br_if $copy (i32.lt_u (local.get $at) (local.get $stride))))
      (local.set $toBins (i32.add (local.get $toBins) (local.get $stride)))
      (local.set $toGradients (i32.add (local.get $toGradients) (i32.const 8)))
      (local.set $rowsAt (i32.add (local.get $rowsAt) (i32.const 4)))
      (br_if $rows (i32.lt_u (local.get $rowsAt) (local.get $end)))))

  ;; Counts rows that stand together into the panel. A feature has 2,112 bytes there: 256 bins of 8 and a gap.
  (func $countEight
    (param $binAt i32) (param $stride i32) (param $gradientAt i32) (param $end i32)
    (local $bins i64) (local $v i64) (local $a i32)
    (loop $rows
      (local.set $v (i64.load (local.get $gradientAt)))
      (local.set $bins (i64.load (local.get $binAt)))
      (local.set $a (i32.and (i32.wrap_i64 (i64.shl (local.get $bins) (i64.const 3))) (i32.const 0x7f8)))
      (i64.store (local.get $a) (i64.add (i64.load (local.get $a)) (local.get $v)))
      (local.set $a (i32.and (i32.wrap_i64 (i64.shr_u (local.get $bins) (i64.const 5))) (i32.const 0x7f8)))
      (i64.store offset=2112 (local.get $a) (i64.add (i64.load offset=2112 (local.get $a)) (local.get $v)))
      (local.set $a (i32.and (i32.wrap_i64 (i64.shr_u (local.get $bins) (i64.const 13))) (i32.const 0x7f8)))
      (i64.store offset=4224 (local.get $a) (i64.add (i64.load offset=4224 (local.get $a)) (local.get $v)))
      (local.set $a (i32.and (i32.wrap_i64 (i64.shr_u (local.get $bins) (i64.const 21))) (i32.const 0x7f8)))
      (i64.store offset=6336 (local.get $a) (i64.add (i64.load offset=6336 (local.get $a)) (local.get $v)))
      (local.set $a (i32.and (i32.wrap_i64 (i64.shr_u (local.get $bins) (i64.const 29))) (i32.const 0x7f8)))
      (i64.store offset=8448 (local.get $a) (i64.add (i64.load offset=8448 (local.get $a)) (local.get $v)))
      (local.set $a (i32.and (i32.wrap_i64 (i64.shr_u (local.get $bins) (i64.const 37))) (i32.const 0x7f8)))
      (i64.store offset=10560 (local.get $a) (i64.add (i64.load offset=10560 (local.get $a)) (local.get $v)))
      (local.set $a (i32.and (i32.wrap_i64 (i64.shr_u (local.get $bins) (i64.const 45))) (i32.const 0x7f8)))
      (i64.store offset=12672 (local.get $a) (i64.add (i64.load offset=12672 (local.get $a)) (local.get $v)))
      (local.set $a (i32.and (i32.wrap_i64 (i64.shr_u (local.get $bins) (i64.const 53))) (i32.const 0x7f8)))
      (i64.store offset=14784 (local.get $a) (i64.add (i64.load offset=14784 (local.get $a)) (local.get $v)))
      (local.set $binAt (i32.add (local.get $binAt) (local.get $stride)))
      (local.set $gradientAt (i32.add (local.get $gradientAt) (i32.const 8)))
      (br_if $rows (i32.lt_u (local.get $gradientAt) (local.get $end)))))

  (func $countFour
    (param $binAt i32) (param $stride i32) (param $gradientAt i32) (param $end i32)
    (local $bins i32) (local $v i64) (local $a i32)
    (loop $rows
      (local.set $v (i64.load (local.get $gradientAt)))
      (local.set $bins (i32.load (local.get $binAt)))
      (local.set $a (i32.and (i32.shl (local.get $bins) (i32.const 3)) (i32.const 0x7f8)))
      (i64.store (local.get $a) (i64.add (i64.load (local.get $a)) (local.get $v)))
      (local.set $a (i32.and (i32.shr_u (local.get $bins) (i32.const 5)) (i32.const 0x7f8)))
      (i64.store offset=2112 (local.get $a) (i64.add (i64.load offset=2112 (local.get $a)) (local.get $v)))
      (local.set $a (i32.and (i32.shr_u (local.get $bins) (i32.const 13)) (i32.const 0x7f8)))
      (i64.store offset=4224 (local.get $a) (i64.add (i64.load offset=4224 (local.get $a)) (local.get $v)))
      (local.set $a (i32.and (i32.shr_u (local.get $bins) (i32.const 21)) (i32.const 0x7f8)))
      (i64.store offset=6336 (local.get $a) (i64.add (i64.load offset=6336 (local.get $a)) (local.get $v)))
      (local.set $binAt (i32.add (local.get $binAt) (local.get $stride)))
      (local.set $gradientAt (i32.add (local.get $gradientAt) (i32.const 8)))
      (br_if $rows (i32.lt_u (local.get $gradientAt) (local.get $end)))))

  ;; Adds the panel to the sums, two bins at a time, and clears it. A sum is 16 bytes: the gradient, and the hessian above
  ;; the rows in the lowest 24 bits. Each row's gradient was one whole too high.
  (func $addPanel (param $histogramAt i32) (param $end i32)
    (local $at i32) (local $featureEnd i32) (local $bins v128) (local $rows v128) (local $gradients v128)
    (loop $features
      (local.set $featureEnd (i32.add (local.get $at) (i32.const 2048)))
      (loop $two
        (local.set $bins (v128.load (local.get $at)))
        (v128.store (local.get $at) (v128.const i64x2 0 0))
        (local.set $rows (v128.and (local.get $bins) (v128.const i64x2 0xfff 0xfff)))
        (local.set $gradients
          (i64x2.sub
            (i64x2.shr_u (local.get $bins) (i32.const 35))
            (i64x2.shl (local.get $rows) (i32.const 16))))
        (local.set $rows
          (v128.or
            (local.get $rows)
            (v128.and
              (i64x2.shl (local.get $bins) (i32.const 12))
              (v128.const i64x2 0x7fffff000000 0x7fffff000000))))
        (v128.store
          (local.get $histogramAt)
          (i64x2.add
            (v128.load (local.get $histogramAt))
            (i8x16.shuffle 0 1 2 3 4 5 6 7 16 17 18 19 20 21 22 23 (local.get $gradients) (local.get $rows))))
        (v128.store offset=16
          (local.get $histogramAt)
          (i64x2.add
            (v128.load offset=16 (local.get $histogramAt))
            (i8x16.shuffle 8 9 10 11 12 13 14 15 24 25 26 27 28 29 30 31 (local.get $gradients) (local.get $rows))))
        (local.set $at (i32.add (local.get $at) (i32.const 16)))
        (local.set $histogramAt (i32.add (local.get $histogramAt) (i32.const 32)))
        (br_if $two (i32.lt_u (local.get $at) (local.get $featureEnd))))
      (local.set $at (i32.add (local.get $at) (i32.const 64)))
      (local.set $histogramAt (i32.add (local.get $histogramAt) (i32.const 64)))
      (br_if $features (i32.lt_u (local.get $at) (local.get $end)))))

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
