define i64 @"quote\22"(i64 %x) {
  ret i64 %x
}
define i64 @"back\5Cslash"(i64 %x) {
  ret i64 %x
}
define i64 @"tab\09and\0Aline"(i64 %x) {
  ret i64 %x
}
define i64 @"caf\C3\A9"(i64 %x) {
  ret i64 %x
}
define i64 @"bell\07"(i64 %x) {
  ret i64 %x
}
