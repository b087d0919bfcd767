package file

// Origin returns where the document is that a row of a table is from, as
// "file:line:column", given the row's key as text; empty if it is from none.
func (s *Source) Origin(table, key string) string {
	held := s.origins.Load()
	if held == nil {
		return ""
	}
	for _, k := range s.config.Kinds {
		if k.table().Name() == table {
			if d := (*held)[id{k, key}]; d != nil {
				return d.at.String()
			}
		}
	}
	return ""
}
