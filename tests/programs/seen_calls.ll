; Calls of functions of every linkage and of every instruction that LLVM prints on several lines, with debugging
; information between; and twelve functions that call each other, of whose names clang prints ten.

$merged = comdat any

; The address of one of them matters.
@told = global ptr @once

declare void @outside(i32)
declare i32 @__gxx_personality_v0(...)

define internal i32 @switches(i32 %x) unnamed_addr #0 !dbg !5 {
    #dbg_value(i32 %x, !8, !DIExpression(), !9)
  switch i32 %x, label %other [
    i32 0, label %first
    i32 7, label %second
    i32 9, label %second
  ], !dbg !9
first:
  call void @outside(i32 1), !dbg !9
  ret i32 4, !dbg !9
second:
    #dbg_value(i32 1, !8, !DIExpression(), !9)
    #dbg_value(i32 2, !8, !DIExpression(), !9)
  ret i32 5, !dbg !9
other:
  ret i32 %x, !dbg !9
}

define linkonce_odr i32 @merged(i32 %x) local_unnamed_addr #0 comdat personality ptr @__gxx_personality_v0 {
  invoke void @outside(i32 %x)
          to label %fine unwind label %caught
fine:
  %y = call i32 @switches(i32 %x)
  ret i32 %y
caught:
  %pad = landingpad { ptr, i32 }
          cleanup
          catch ptr null
          filter [0 x ptr] zeroinitializer
  ret i32 -1
}

define weak_odr i32 @overridden(i32 %x) #0 {
  callbr void asm sideeffect "# ${0:l}", "!i"() to label %here [label %there]
here:
  ret i32 1
there:
  ret i32 2
}

define available_externally i32 @elsewhere(i32 %x) #0 {
  call void @outside(i32 %x)
  %y = mul i32 %x, %x
  ret i32 %y
}

define private i32 @hidden(i32 %x) unnamed_addr #0 {
  call void @outside(i32 %x)
  call void @outside(i32 %x)
  ret i32 %x
}

define i32 @once(i32 %x) #0 {
  %a = call i32 @hidden(i32 %x)
  ret i32 %a
}

define i32 @top(i32 %x) #0 {
  %a = call i32 @switches(i32 %x)
  %b = call i32 @merged(i32 %a)
  %c = call i32 @overridden(i32 %b)
  %d = call i32 @elsewhere(i32 %c)
  %e = call i32 @elsewhere(i32 %d)
  %f = call i32 @merged(i32 %e)
  %g = call i32 @switches(i32 %f)
  %h = call i32 @once(i32 %g)
  %i = call i32 @once(i32 %h)
  %j = call i32 @switches(i32 %i)
  ret i32 %j
}

define i32 @turn00(i32 %x) #0 {
  %a = call i32 @top(i32 %x)
  %stop = icmp eq i32 %a, 0
  br i1 %stop, label %end, label %on
on:
  %b = call i32 @turn01(i32 %a)
  br label %end
end:
  %c = phi i32 [ %x, %0 ], [ %b, %on ]
  ret i32 %c
}

define i32 @turn01(i32 %x) #0 {
  %a = call i32 @top(i32 %x)
  %stop = icmp eq i32 %a, 1
  br i1 %stop, label %end, label %on
on:
  %b = call i32 @turn02(i32 %a)
  br label %end
end:
  %c = phi i32 [ %x, %0 ], [ %b, %on ]
  ret i32 %c
}

define i32 @turn02(i32 %x) #0 {
  %a = call i32 @top(i32 %x)
  %stop = icmp eq i32 %a, 2
  br i1 %stop, label %end, label %on
on:
  %b = call i32 @turn03(i32 %a)
  br label %end
end:
  %c = phi i32 [ %x, %0 ], [ %b, %on ]
  ret i32 %c
}

define i32 @turn03(i32 %x) #0 {
  %a = call i32 @top(i32 %x)
  %stop = icmp eq i32 %a, 3
  br i1 %stop, label %end, label %on
on:
  %b = call i32 @turn04(i32 %a)
  br label %end
end:
  %c = phi i32 [ %x, %0 ], [ %b, %on ]
  ret i32 %c
}

define i32 @turn04(i32 %x) #0 {
  %a = call i32 @top(i32 %x)
  %stop = icmp eq i32 %a, 4
  br i1 %stop, label %end, label %on
on:
  %b = call i32 @turn05(i32 %a)
  br label %end
end:
  %c = phi i32 [ %x, %0 ], [ %b, %on ]
  ret i32 %c
}

define i32 @turn05(i32 %x) #0 {
  %a = call i32 @top(i32 %x)
  %stop = icmp eq i32 %a, 5
  br i1 %stop, label %end, label %on
on:
  %b = call i32 @turn06(i32 %a)
  br label %end
end:
  %c = phi i32 [ %x, %0 ], [ %b, %on ]
  ret i32 %c
}

define i32 @turn06(i32 %x) #0 {
  %a = call i32 @top(i32 %x)
  %stop = icmp eq i32 %a, 6
  br i1 %stop, label %end, label %on
on:
  %b = call i32 @turn07(i32 %a)
  br label %end
end:
  %c = phi i32 [ %x, %0 ], [ %b, %on ]
  ret i32 %c
}

define i32 @turn07(i32 %x) #0 {
  %a = call i32 @top(i32 %x)
  %stop = icmp eq i32 %a, 7
  br i1 %stop, label %end, label %on
on:
  %b = call i32 @turn08(i32 %a)
  br label %end
end:
  %c = phi i32 [ %x, %0 ], [ %b, %on ]
  ret i32 %c
}

define i32 @turn08(i32 %x) #0 {
  %a = call i32 @top(i32 %x)
  %stop = icmp eq i32 %a, 8
  br i1 %stop, label %end, label %on
on:
  %b = call i32 @turn09(i32 %a)
  br label %end
end:
  %c = phi i32 [ %x, %0 ], [ %b, %on ]
  ret i32 %c
}

define i32 @turn09(i32 %x) #0 {
  %a = call i32 @top(i32 %x)
  %stop = icmp eq i32 %a, 9
  br i1 %stop, label %end, label %on
on:
  %b = call i32 @turn10(i32 %a)
  br label %end
end:
  %c = phi i32 [ %x, %0 ], [ %b, %on ]
  ret i32 %c
}

define i32 @turn10(i32 %x) #0 {
  %a = call i32 @top(i32 %x)
  %stop = icmp eq i32 %a, 10
  br i1 %stop, label %end, label %on
on:
  %b = call i32 @turn11(i32 %a)
  br label %end
end:
  %c = phi i32 [ %x, %0 ], [ %b, %on ]
  ret i32 %c
}

define i32 @turn11(i32 %x) #0 {
  %a = call i32 @top(i32 %x)
  %stop = icmp eq i32 %a, 11
  br i1 %stop, label %end, label %on
on:
  %b = call i32 @turn00(i32 %a)
  br label %end
end:
  %c = phi i32 [ %x, %0 ], [ %b, %on ]
  ret i32 %c
}

attributes #0 = { minsize optsize }

!llvm.dbg.cu = !{!0}
!llvm.module.flags = !{!3}

!0 = distinct !DICompileUnit(language: DW_LANG_C99, file: !1, producer: "a test", emissionKind: FullDebug)
!1 = !DIFile(filename: "seen_calls.c", directory: "/")
!3 = !{i32 2, !"Debug Info Version", i32 3}
!4 = !DISubroutineType(types: !{null})
!5 = distinct !DISubprogram(name: "switches", file: !1, line: 1, type: !4, unit: !0, spFlags: DISPFlagDefinition)
!6 = !DIBasicType(name: "int", size: 32, encoding: DW_ATE_signed)
!8 = !DILocalVariable(name: "x", arg: 1, scope: !5, file: !1, line: 1, type: !6)
!9 = !DILocation(line: 1, scope: !5)
