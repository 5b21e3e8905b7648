define internal i32 @callee(ptr %p, i32 %x, i1 %c) minsize optsize {
entry:
  %a = load volatile i32, ptr %p
  %b = add i32 %a, %x
  %d = mul i32 %b, %a
  br i1 %c, label %left, label %right
left:
  %q = getelementptr i8, ptr %p, i64 4
  %e = load volatile i32, ptr %q
  %z = zext i32 %e to i64
  store volatile i64 %z, ptr %p
  br label %end
right:
  %f = xor i32 %d, 7
  store volatile i32 %f, ptr %p
  br label %end
end:
  %r = phi i32 [ %e, %left ], [ %f, %right ]
  %k = icmp slt i32 %r, %d
  %s = select i1 %k, i32 %r, i32 %x
  ret i32 %s
}

define i32 @caller(ptr %p, i32 %x, i1 %c) minsize optsize {
  %first = call i32 @callee(ptr %p, i32 %x, i1 %c)
  %v = load volatile i32, ptr %p
  %second = call i32 @callee(ptr %p, i32 %v, i1 %c)
  %quotient = udiv i32 %first, %second
  ret i32 %quotient
}
