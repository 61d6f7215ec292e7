;; Passes over tokens of a JSON text (RFC 8259), and over strings 32 bytes at a time. The memory, which window.ts fills:
;;    0  expect, depth, in an object, keys, values, seen: six words, read by pass at its start and written at its end
;;   64  a byte for each open container around the current one: 1 for an object
;;  512  CLASSES, 768 ESCAPES and 1024 HEX of grammar.ts: a byte for each byte
;; 1280  STEPS and 3584 WHOLE of grammar.ts: numbers
;; 4096  the piece; behind its end 64 quotes, at which every search ends
;; 73728 and 90112: a word for each hash of a name, and of a short value: the bits of those who watch for it
;; 106496 a text that is sought
;; 107520 a word for each hash of a value's first two bytes: the bits of those who watch for values that begin so; below 0 where
;;        a short value that begins so is watched for
;; Heads of HTTP messages are read in the place of the piece, too: $blank and $text.
;; window.test.ts assembles it: WASM=write makes window.wasm anew.
(module
  (memory (export "memory") 2)

  ;; Not 0: the part of the string that $end has checked last holds a `\u`.
  (global $escapes (mut i32) (i32.const 0))

  ;; Where the quote stands that ends a string, from inside of it; the piece's end, or one more behind a backslash, where
  ;; the piece cuts it; -1 for a control character or a wrong escape in front of $checked.
  (func $end (export "end") (param $i i32) (param $checked i32) (result i32)
    (local $a v128) (local $b v128) (local $backslash i32) (local $quote i32) (local $escape i32) (local $escaped i32)
    (local $cut i32) (local $within i32) (local $at i32) (local $hidden i32)
    (loop $block
      (local.set $a (v128.load align=1 (local.get $i)))
      (local.set $b (v128.load offset=16 align=1 (local.get $i)))
      (local.set $backslash (i32.or
        (i8x16.bitmask (i8x16.eq (local.get $a) (v128.const i8x16 92 92 92 92 92 92 92 92 92 92 92 92 92 92 92 92)))
        (i32.shl
          (i8x16.bitmask (i8x16.eq (local.get $b) (v128.const i8x16 92 92 92 92 92 92 92 92 92 92 92 92 92 92 92 92)))
          (i32.const 16))))
      (local.set $quote (i32.or
        (i8x16.bitmask (i8x16.eq (local.get $a) (v128.const i8x16 34 34 34 34 34 34 34 34 34 34 34 34 34 34 34 34)))
        (i32.shl
          (i8x16.bitmask (i8x16.eq (local.get $b) (v128.const i8x16 34 34 34 34 34 34 34 34 34 34 34 34 34 34 34 34)))
          (i32.const 16))))
      (local.set $escaped (i32.const 0))
      ;; Which bytes stand behind a backslash that is none itself: those that begin an escape have the odd places of their
      ;; run, which a subtraction finds by its borrows ($cut: the last block ended with such a backslash).
      (if (i32.or (local.get $backslash) (local.get $cut)) (then
        (local.set $escape (i32.and (local.get $backslash) (i32.xor (local.get $cut) (i32.const -1))))
        (local.set $escape (i32.xor
          (i32.sub
            (i32.or (i32.shl (local.get $escape) (i32.const 1)) (i32.const 0xaaaaaaaa))
            (local.get $escape))
          (i32.const 0xaaaaaaaa)))
        (local.set $escaped (i32.xor (local.get $escape) (i32.or (local.get $backslash) (local.get $cut))))
        (local.set $cut (i32.shr_u (i32.and (local.get $escape) (local.get $backslash)) (i32.const 31)))
        (local.set $quote (i32.and (local.get $quote) (i32.xor (local.get $escaped) (i32.const -1))))))
      (if (i32.le_u (local.get $i) (local.get $checked)) (then
        ;; The bytes in front of $checked and of the quote.
        (local.set $within (i32.sub (local.get $checked) (local.get $i)))
        (local.set $within (i32.and
          (select
            (i32.const -1)
            (i32.sub (i32.shl (i32.const 1) (local.get $within)) (i32.const 1))
            (i32.gt_u (local.get $within) (i32.const 31)))
          (i32.and (i32.sub (local.get $quote) (i32.const 1)) (i32.xor (local.get $quote) (i32.const -1)))))
        (if (i32.and (local.get $within) (i32.or
            (i8x16.bitmask (i8x16.le_u (local.get $a) (v128.const i8x16 31 31 31 31 31 31 31 31 31 31 31 31 31 31 31 31)))
            (i32.shl
              (i8x16.bitmask (i8x16.le_u (local.get $b) (v128.const i8x16 31 31 31 31 31 31 31 31 31 31 31 31 31 31 31 31)))
              (i32.const 16))))
          (then (return (i32.const -1))))
        (local.set $escaped (i32.and
          (local.get $escaped)
          (i32.or (i32.shl (local.get $within) (i32.const 1)) (i32.const 1))))
        (if (local.get $escaped) (then
          (if (i32.and (local.get $escaped) (i32.xor (i32.const -1) (i32.or
              (call $escapes (local.get $a))
              (i32.shl (call $escapes (local.get $b)) (i32.const 16)))))
            (then (return (i32.const -1))))
          (local.set $escaped (i32.and (local.get $escaped) (i32.or
            (i8x16.bitmask (i8x16.eq (local.get $a) (v128.const i8x16 117 117 117 117 117 117 117 117 117 117 117 117 117 117 117 117)))
            (i32.shl
              (i8x16.bitmask (i8x16.eq (local.get $b) (v128.const i8x16 117 117 117 117 117 117 117 117 117 117 117 117 117 117 117 117)))
              (i32.const 16)))))
          (local.set $hidden (i32.or (local.get $hidden) (local.get $escaped)))
          (block $done (loop $u
            (br_if $done (i32.eqz (local.get $escaped)))
            (local.set $at (i32.add (local.get $i) (i32.ctz (local.get $escaped))))
            (if (i32.eqz (i32.and
                (i32.and
                  (i32.load8_u offset=1024 (i32.load8_u offset=1 (local.get $at)))
                  (i32.load8_u offset=1024 (i32.load8_u offset=2 (local.get $at))))
                (i32.and
                  (i32.load8_u offset=1024 (i32.load8_u offset=3 (local.get $at)))
                  (i32.load8_u offset=1024 (i32.load8_u offset=4 (local.get $at))))))
              (then (return (i32.const -1))))
            (local.set $escaped (i32.and (local.get $escaped) (i32.sub (local.get $escaped) (i32.const 1))))
            (br $u)))))))
      (if (local.get $quote) (then
        (global.set $escapes (local.get $hidden))
        (return (i32.add (local.get $i) (i32.ctz (local.get $quote))))))
      (local.set $i (i32.add (local.get $i) (i32.const 32)))
      (br $block))
    (unreachable))

  ;; A bit for each byte that may stand behind a backslash, "\/bfnrtu: one that its high and its low half both allow.
  (func $escapes (param $v v128) (result i32)
    (i8x16.bitmask (i8x16.ne
      (v128.and
        (i8x16.swizzle
          (v128.const i8x16 0 0 13 0 8 8 4 0 0 0 0 0 2 0 4 1)
          (v128.and (local.get $v) (v128.const i8x16 15 15 15 15 15 15 15 15 15 15 15 15 15 15 15 15)))
        (i8x16.swizzle
          (v128.const i8x16 0 0 1 0 0 2 4 8 0 0 0 0 0 0 0 0)
          (i8x16.shr_u (local.get $v) (i32.const 4))))
      (v128.const i64x2 0 0))))

  ;; The first byte from $i on that is no white space. What stands between most tokens is one space, or none.
  (func $blanks (export "blanks") (param $i i32) (result i32)
    (local $v v128) (local $other i32)
    (if (i32.ne (i32.load8_u offset=512 (i32.load8_u (local.get $i))) (i32.const 1)) (then (return (local.get $i))))
    (loop $block
      (local.set $v (v128.load align=1 (local.get $i)))
      ;; Each kind of white space has a low half of its own, at whose place the table has the byte itself.
      (local.set $other (i32.xor (i32.const 0xffff) (i8x16.bitmask (i8x16.eq
        (local.get $v)
        (i8x16.swizzle
          (v128.const i8x16 32 0 0 0 0 0 0 0 0 9 10 0 0 13 0 0)
          (v128.and (local.get $v) (v128.const i8x16 15 15 15 15 15 15 15 15 15 15 15 15 15 15 15 15)))))))
      (if (local.get $other) (then (return (i32.add (local.get $i) (i32.ctz (local.get $other))))))
      (local.set $i (i32.add (local.get $i) (i32.const 16)))
      (br $block))
    (unreachable))

  ;; Where the text of $length bytes at 106496 stands between $i and $to; $to where it does not. Its bytes at $pair and behind,
  ;; which differ where any two do, are looked for at 16 places at once.
  (func (export "find") (param $i i32) (param $to i32) (param $length i32) (param $pair i32) (result i32)
    (local $first v128) (local $second v128) (local $places i32) (local $at i32) (local $same i32)
    (local.set $first (i8x16.splat (i32.load8_u offset=106496 (local.get $pair))))
    (local.set $second (i8x16.splat (i32.load8_u offset=106497 (local.get $pair))))
    (block $none
      (loop $block
        (br_if $none (i32.gt_u (i32.add (local.get $i) (local.get $length)) (local.get $to)))
        (local.set $at (i32.add (local.get $i) (local.get $pair)))
        (local.set $places (i8x16.bitmask (v128.and
          (i8x16.eq (v128.load align=1 (local.get $at)) (local.get $first))
          (i8x16.eq (v128.load offset=1 align=1 (local.get $at)) (local.get $second)))))
        (block $next
          (loop $place
            (br_if $next (i32.eqz (local.get $places)))
            (local.set $at (i32.add (local.get $i) (i32.ctz (local.get $places))))
            (br_if $none (i32.gt_u (i32.add (local.get $at) (local.get $length)) (local.get $to)))
            (local.set $same (i32.const 0))
            (block $other
              (loop $compare
                (br_if $other (i32.ne (i32.const 0xffff) (i32.or
                  (i8x16.bitmask (i8x16.eq
                    (v128.load align=1 (i32.add (local.get $at) (local.get $same)))
                    (v128.load offset=106496 align=1 (local.get $same))))
                  ;; What lies behind the text does not count.
                  (i32.and (i32.const 0xffff) (select
                    (i32.const 0)
                    (i32.shl (i32.const -1) (i32.sub (local.get $length) (local.get $same)))
                    (i32.gt_u (i32.sub (local.get $length) (local.get $same)) (i32.const 15)))))))
                (local.set $same (i32.add (local.get $same) (i32.const 16)))
                (br_if $compare (i32.lt_u (local.get $same) (local.get $length))))
              (return (local.get $at)))
            (local.set $places (i32.and (local.get $places) (i32.sub (local.get $places) (i32.const 1))))
            (br $place)))
        (local.set $i (i32.add (local.get $i) (i32.const 16)))
        (br $block)))
    (local.get $to))

  ;; Where a CRLF stands between $i and $to that another one follows; $to where none does.
  (func (export "blank") (param $i i32) (param $to i32) (result i32)
    (local $places i32) (local $at i32)
    (block $none
      (loop $block
        (br_if $none (i32.ge_u (local.get $i) (local.get $to)))
        (local.set $places (i8x16.bitmask (v128.and
          (i8x16.eq (v128.load align=1 (local.get $i))
            (v128.const i8x16 13 13 13 13 13 13 13 13 13 13 13 13 13 13 13 13))
          (i8x16.eq (v128.load offset=2 align=1 (local.get $i))
            (v128.const i8x16 13 13 13 13 13 13 13 13 13 13 13 13 13 13 13 13)))))
        (block $next
          (loop $place
            (br_if $next (i32.eqz (local.get $places)))
            (local.set $at (i32.add (local.get $i) (i32.ctz (local.get $places))))
            (br_if $none (i32.gt_u (i32.add (local.get $at) (i32.const 4)) (local.get $to)))
            (if (i32.eq (i32.load align=1 (local.get $at)) (i32.const 0x0a0d0a0d)) (then (return (local.get $at))))
            (local.set $places (i32.and (local.get $places) (i32.sub (local.get $places) (i32.const 1))))
            (br $place)))
        (local.set $i (i32.add (local.get $i) (i32.const 16)))
        (br $block)))
    (local.get $to))

  ;; The first byte from $i on that no value of a header may hold: a control character that is no tab.
  (func (export "text") (param $i i32) (result i32)
    (local $v v128) (local $places i32)
    (loop $block
      (local.set $v (v128.load align=1 (local.get $i)))
      (local.set $places (i8x16.bitmask (v128.or
        (v128.and
          (i8x16.le_u (local.get $v) (v128.const i8x16 31 31 31 31 31 31 31 31 31 31 31 31 31 31 31 31))
          (i8x16.ne (local.get $v) (v128.const i8x16 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9)))
        (i8x16.eq (local.get $v) (v128.const i8x16 127 127 127 127 127 127 127 127 127 127 127 127 127 127 127 127)))))
      (if (local.get $places) (then (return (i32.add (local.get $i) (i32.ctz (local.get $places))))))
      (local.set $i (i32.add (local.get $i) (i32.const 16)))
      (br $block))
    (unreachable))

  ;; Passes over tokens from $i up to $to; the first byte that it does not pass is its result. $span: bytes of a string value
  ;; that are checked. What may come next is numbered as in grammar.ts: 0 first value, 1 value, 2 first name, 3 name, 4 colon,
  ;; 5 comma or end.
  (func (export "pass") (param $i i32) (param $to i32) (param $maxDepth i32) (param $maxKeys i32) (param $span i32) (result i32)
    (local $expect i32) (local $depth i32) (local $object i32) (local $keys i32)
    (local $values i32) (local $seen i32) (local $next i32) (local $state i32) (local $step i32)
    (local $name i32) (local $text v128)
    (local.set $expect (i32.load (i32.const 0)))
    (local.set $depth (i32.load (i32.const 4)))
    (local.set $object (i32.load (i32.const 8)))
    (local.set $keys (i32.load (i32.const 12)))
    (local.set $values (i32.load (i32.const 16)))
    (local.set $seen (i32.load (i32.const 20)))
    (block $stop
      (loop $token
        (br_if $stop (i32.ge_u (local.get $i) (local.get $to)))
        (block $letter (block $digit (block $close (block $open (block $colon (block $comma (block $quote (block $space (block $other
          (br_table $other $space $quote $comma $colon $open $close $digit $letter
            (i32.load8_u offset=512 (i32.load8_u (local.get $i)))))
          ;; other
          (br $stop))
          ;; space
          (local.set $i (call $blanks (i32.add (local.get $i) (i32.const 1))))
          (br $token))
          ;; quote
          (br_if $stop (i32.gt_u (local.get $expect) (i32.const 3)))
          (local.set $name (i32.gt_u (local.get $expect) (i32.const 1)))
          (local.set $next (i32.add (local.get $i) (i32.const 1)))
          (block $ended
            ;; Most names and many values end within the first sixteen bytes, without an escape.
            (local.set $text (v128.load align=1 (local.get $next)))
            (local.set $step (i8x16.bitmask (v128.or
              (i8x16.le_u (local.get $text) (v128.const i8x16 31 31 31 31 31 31 31 31 31 31 31 31 31 31 31 31))
              (v128.or
                (i8x16.eq (local.get $text) (v128.const i8x16 34 34 34 34 34 34 34 34 34 34 34 34 34 34 34 34))
                (i8x16.eq (local.get $text) (v128.const i8x16 92 92 92 92 92 92 92 92 92 92 92 92 92 92 92 92))))))
            (if (local.get $step) (then
              (local.set $step (i32.add (local.get $next) (i32.ctz (local.get $step))))
              (if (i32.eq (i32.load8_u (local.get $step)) (i32.const 34)) (then
                (local.set $next (local.get $step))
                (br_if $stop (i32.ge_u (local.get $next) (local.get $to)))
                (br $ended)))))
            (local.set $next (call $end
              (local.get $next)
              (select (local.get $to) (i32.add (local.get $next) (local.get $span)) (local.get $name))))
            (br_if $stop (i32.ge_u (local.get $next) (local.get $to)))
            (if (i32.and
                (i32.ne (global.get $escapes) (i32.const 0))
                (i32.or (local.get $name) (i32.lt_u (i32.sub (local.get $next) (local.get $i)) (i32.const 200))))
              (then (local.set $seen (i32.or
                (local.get $seen)
                (select (i32.const 0x80000000) (i32.const 0x40000000) (local.get $name)))))))
          (block $watched
            (if (local.get $name)
              (then
                (br_if $stop (i32.eq (local.get $keys) (local.get $maxKeys)))
                ;; A name that may be too long: MAX_NAME of window.ts, and its opening quote.
                (br_if $stop (i32.gt_u (i32.sub (local.get $next) (local.get $i)) (i32.const 16384)))
                (local.set $keys (i32.add (local.get $keys) (i32.const 1)))
                (local.set $expect (i32.const 4))
                (local.set $step (i32.const 73728)))
              (else
                (local.set $expect (i32.const 5))
                (local.set $step (i32.load offset=107520 (i32.xor
                  (i32.shl (i32.load8_u offset=1 (local.get $i)) (i32.const 6))
                  (i32.shl (i32.load8_u offset=2 (local.get $i)) (i32.const 2)))))
                (br_if $watched (i32.eqz (local.get $step)))
                (local.set $seen (i32.or (local.get $seen) (i32.and (local.get $step) (i32.const 0x3fffffff))))
                ;; No short value that begins so is watched for, or this one is long.
                (br_if $watched (i32.or
                  (i32.ge_s (local.get $step) (i32.const 0))
                  (i32.ge_u (i32.sub (local.get $next) (local.get $i)) (i32.const 200))))
                (local.set $step (i32.const 90112))))
            ;; The hash of the length, the first byte and the last two. window.ts has the same.
            (local.set $seen (i32.or (local.get $seen) (i32.load (i32.add (local.get $step) (i32.and
              (i32.add
                (i32.mul (i32.load16_u align=1 (i32.sub (local.get $next) (i32.const 2))) (i32.const 148))
                (i32.add
                  (i32.mul (i32.load8_u offset=1 (local.get $i)) (i32.const 1204))
                  (i32.mul (i32.sub (i32.sub (local.get $next) (local.get $i)) (i32.const 1)) (i32.const 4492))))
              (i32.const 16380)))))))
          (local.set $i (i32.add (local.get $next) (i32.const 1)))
          ;; Most names have their colon at once.
          (if (i32.and (local.get $name) (i32.eq (i32.load8_u (local.get $i)) (i32.const 58))) (then
            (local.set $expect (i32.const 1))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))))
          (br $token))
          ;; comma
          (br_if $stop (i32.ne (local.get $expect) (i32.const 5)))
          (local.set $expect (select (i32.const 3) (i32.const 1) (local.get $object)))
          (local.set $values (i32.add (local.get $values) (i32.const 1)))
          (local.set $i (i32.add (local.get $i) (i32.const 1)))
          (br $token))
          ;; colon
          (br_if $stop (i32.ne (local.get $expect) (i32.const 4)))
          (local.set $expect (i32.const 1))
          (local.set $i (i32.add (local.get $i) (i32.const 1)))
          (br $token))
          ;; open
          (br_if $stop (i32.gt_u (local.get $expect) (i32.const 1)))
          (br_if $stop (i32.eq (local.get $depth) (local.get $maxDepth)))
          (i32.store8 offset=64 (local.get $depth) (local.get $object))
          (local.set $depth (i32.add (local.get $depth) (i32.const 1)))
          (local.set $object (i32.eq (i32.load8_u (local.get $i)) (i32.const 123)))
          (local.set $values (i32.add (local.get $values) (i32.const 1)))
          (local.set $expect (select (i32.const 2) (i32.const 0) (local.get $object)))
          (local.set $i (i32.add (local.get $i) (i32.const 1)))
          (br $token))
          ;; close
          (br_if $stop (i32.eq (local.get $depth) (i32.const 2)))
          (br_if $stop (i32.ne (local.get $object) (i32.eq (i32.load8_u (local.get $i)) (i32.const 125))))
          (br_if $stop (i32.and
            (i32.ne (local.get $expect) (i32.const 5))
            (i32.ne (local.get $expect) (select (i32.const 2) (i32.const 0) (local.get $object)))))
          (local.set $depth (i32.sub (local.get $depth) (i32.const 1)))
          (local.set $object (i32.load8_u offset=64 (local.get $depth)))
          (local.set $expect (i32.const 5))
          (local.set $i (i32.add (local.get $i) (i32.const 1)))
          (br $token))
          ;; digit
          (br_if $stop (i32.gt_u (local.get $expect) (i32.const 1)))
          (local.set $state (i32.const 0))
          (local.set $next (local.get $i))
          (block $whole
            (loop $figure
              (local.set $step (i32.load8_u offset=1280 (i32.add
                (i32.shl (local.get $state) (i32.const 8))
                (i32.load8_u (local.get $next)))))
              (br_if $whole (i32.eqz (local.get $step)))
              (local.set $state (local.get $step))
              (local.set $next (i32.add (local.get $next) (i32.const 1)))
              (br $figure)))
          (br_if $stop (i32.ge_u (local.get $next) (local.get $to)))
          (br_if $stop (i32.eqz (i32.load8_u offset=3584 (local.get $state))))
          (local.set $expect (i32.const 5))
          (local.set $i (local.get $next))
          (br $token))
        ;; letter
        (br_if $stop (i32.gt_u (local.get $expect) (i32.const 1)))
        (local.set $next (i32.load align=1 (local.get $i)))
        (local.set $step (i32.or
          (i32.eq (local.get $next) (i32.const 0x65757274))
          (i32.eq (local.get $next) (i32.const 0x6c6c756e))))
        (if (i32.eqz (local.get $step)) (then
          (br_if $stop (i32.ne (local.get $next) (i32.const 0x736c6166)))
          (br_if $stop (i32.ne (i32.load8_u offset=4 (local.get $i)) (i32.const 101)))
          (local.set $i (i32.add (local.get $i) (i32.const 1)))))
        (local.set $expect (i32.const 5))
        (local.set $i (i32.add (local.get $i) (i32.const 4)))
        (br $token)))
    (i32.store (i32.const 0) (local.get $expect))
    (i32.store (i32.const 4) (local.get $depth))
    (i32.store (i32.const 8) (local.get $object))
    (i32.store (i32.const 12) (local.get $keys))
    (i32.store (i32.const 16) (local.get $values))
    (i32.store (i32.const 20) (local.get $seen))
    (local.get $i)))
