/* Runs a script; print() writes its arguments. */
#include <stdio.h>
#include <stdlib.h>

#include "quickjs.h"

static JSValue print(JSContext *context, JSValueConst self, int count, JSValueConst *values) {
  (void)self;
  for (int i = 0; i < count; i++) {
    const char *text = JS_ToCString(context, values[i]);
    if (!text)
      return JS_EXCEPTION;
    printf("%s%s", i ? " " : "", text);
    JS_FreeCString(context, text);
  }
  putchar('\n');
  return JS_UNDEFINED;
}

int main(int count, char **words) {
  static char source[1 << 20];
  FILE *file = count == 2 ? fopen(words[1], "rb") : NULL;
  if (!file)
    return 2;
  size_t length = fread(source, 1, sizeof source - 1, file);
  fclose(file);
  JSRuntime *runtime = JS_NewRuntime();
  JSContext *context = JS_NewContext(runtime);
  JSValue global = JS_GetGlobalObject(context);
  JS_SetPropertyStr(context, global, "print", JS_NewCFunction(context, print, "print", 1));
  JS_FreeValue(context, global);
  JSValue result = JS_Eval(context, source, length, words[1], JS_EVAL_TYPE_GLOBAL);
  int failed = JS_IsException(result);
  if (failed) {
    JSValue exception = JS_GetException(context);
    const char *text = JS_ToCString(context, exception);
    fprintf(stderr, "%s\n", text ? text : "exception");
    JS_FreeCString(context, text);
    JS_FreeValue(context, exception);
  }
  JS_FreeValue(context, result);
  JS_FreeContext(context);
  JS_FreeRuntime(runtime);
  return failed;
}
