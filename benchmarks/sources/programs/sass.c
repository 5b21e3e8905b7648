/* Prints the style sheet of a file. */
#include <sass/context.h>
#include <stdio.h>

int main(int count, char **words) {
  if (count != 2)
    return 2;
  struct Sass_File_Context *file = sass_make_file_context(words[1]);
  struct Sass_Context *context = sass_file_context_get_context(file);
  int status = sass_compile_file_context(file);
  fputs(status ? sass_context_get_error_message(context) : sass_context_get_output_string(context), stdout);
  sass_delete_file_context(file);
  return status;
}
