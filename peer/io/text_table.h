// Rows of text as a table for people.
#pragma once

#include <string>
#include <vector>

namespace starling::peer {

// Columns as wide as what is in them, the first to the left and the others to the right; a line for
// each row.
std::string text_table(const std::vector<std::vector<std::string>>& rows);

}  // namespace starling::peer
