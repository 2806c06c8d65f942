// Says which line breaks end a statement; `;` always does. A break does not if the grammar expects
// more of the statement, which the parser knows, or if the next line begins with something that
// cannot begin a statement, which is decided here: as in wgcc/syntax/blocks.py.

#include <string.h>

#include "tree_sitter/parser.h"

enum TokenType { NEWLINE };

static bool is_space(int32_t c) { return c == ' ' || (c >= '\t' && c <= '\r') || c == 0xFEFF; }

static bool is_word(int32_t c) {
  return c == '_' || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

static void advance(TSLexer *lexer) { lexer->advance(lexer, false); }

static void skip_spaces(TSLexer *lexer) {
  while (is_space(lexer->lookahead)) advance(lexer);
}

static void read_word(TSLexer *lexer, char *word, unsigned size) {
  unsigned length = 0;
  while (is_word(lexer->lookahead)) {
    if (length + 1 < size) word[length++] = (char)lexer->lookahead;
    advance(lexer);
  }
  word[length] = 0;
}

// A keyword that continues the statement. The second ones are also names: then no word follows.
static bool continues_by_word(TSLexer *lexer) {
  static const char *const always[] = {"and", "or", "in", "else"};
  static const char *const before_words[] = {"with", "over", "from", "as", "then", "grad"};
  char word[8];
  read_word(lexer, word, sizeof word);
  for (unsigned i = 0; i < sizeof always / sizeof *always; i++)
    if (!strcmp(word, always[i])) return true;
  for (unsigned i = 0; i < sizeof before_words / sizeof *before_words; i++)
    if (!strcmp(word, before_words[i])) {
      skip_spaces(lexer);
      return is_word(lexer->lookahead) || lexer->lookahead == '"';
    }
  return false;
}

// At the first character of the next token, which is no comment. `}` may follow a line break.
static bool continues(TSLexer *lexer) {
  int32_t c = lexer->lookahead;
  if (c == '.') {
    advance(lexer);
    return lexer->lookahead != '.';
  }
  if (c < 128 && c > 0 && strchr(")]{,=~:|+-*/%@<>!", c)) return true;
  return is_word(c) && continues_by_word(lexer);
}

// Skips blank lines and comments after a line break; true if a token that is no comment follows.
static bool reach_token(TSLexer *lexer, bool *divided) {
  for (;;) {
    skip_spaces(lexer);
    if (lexer->lookahead == ';') {
      *divided = true;
      return true;
    }
    if (lexer->lookahead != '/') return !lexer->eof(lexer);
    advance(lexer);
    if (lexer->lookahead != '/') return *divided = false, false;  // an operator
    while (lexer->lookahead != '\n' && !lexer->eof(lexer)) advance(lexer);
  }
}

static bool take_divisions(TSLexer *lexer) {
  while (is_space(lexer->lookahead) || lexer->lookahead == ';') {
    bool mark = lexer->lookahead == ';';
    advance(lexer);
    if (mark) lexer->mark_end(lexer);
  }
  return true;
}

bool tree_sitter_wg_external_scanner_scan(void *payload, TSLexer *lexer, const bool *valid) {
  (void)payload;
  if (!valid[NEWLINE]) return false;
  while (is_space(lexer->lookahead) && lexer->lookahead != '\n') lexer->advance(lexer, true);
  lexer->result_symbol = NEWLINE;
  if (lexer->lookahead == ';') {
    advance(lexer);
    lexer->mark_end(lexer);
    return take_divisions(lexer);
  }
  if (lexer->lookahead != '\n') return false;
  advance(lexer);
  lexer->mark_end(lexer);
  bool divided = false;
  if (!reach_token(lexer, &divided)) return lexer->eof(lexer);
  return divided ? false : !continues(lexer);
}

void *tree_sitter_wg_external_scanner_create(void) { return NULL; }
void tree_sitter_wg_external_scanner_destroy(void *payload) { (void)payload; }
unsigned tree_sitter_wg_external_scanner_serialize(void *payload, char *buffer) {
  (void)payload, (void)buffer;
  return 0;
}
void tree_sitter_wg_external_scanner_deserialize(void *payload, const char *buffer, unsigned length) {
  (void)payload, (void)buffer, (void)length;
}
