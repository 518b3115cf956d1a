# cmake -DTEXT_FILE=... -DTEMPLATE=... -DOUTPUT=... -P EmbedText.cmake: writes the text into a C++ source as one raw string.
file(READ "${TEXT_FILE}" TEXT)
configure_file("${TEMPLATE}" "${OUTPUT}" @ONLY)
